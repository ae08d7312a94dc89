"""New users: who is known, what the prior has seen, and that all rows meet the same world."""

import torch

from experiments.recommender.new_users import by_popularity, compare, new_users
from experiments.recommender.rows import play
from experiments.recommender.towers import film_features, most_rated, pretrain, raw_ratings
from tests.experiments.recommender.cases import ratings
from torch_softucb import fit_prior

SMALL = {"rounds": 4, "candidates": 5, "delay": 1, "epochs": 1}


def test_one_half_of_the_users_is_known_and_tuning_has_a_prior_without_its_users():
    scenario = new_users(ratings(), **SMALL)
    assert scenario.known.shape == (12, 30)
    assert scenario.world.batch_shape == (12,)
    setting = scenario.setting
    assert setting.tuning.batch_shape == (6,)
    assert setting.tuning.means.equal(scenario.known[6:])
    assert setting.prior != setting.tuning_prior
    assert setting.prior.dim == setting.tuning_prior.dim == setting.dim == scenario.world.dim


def test_another_unit_is_the_same_world():
    plain, cents = new_users(ratings(), **SMALL), new_users(ratings(), **SMALL, unit=400.0, low=100.0)
    torch.testing.assert_close(100 + 400 * plain.world.means, cents.world.means)
    assert plain.world.arms.equal(cents.world.arms)
    for name, (regret, _) in compare(plain).items():
        if name in ("greedy, prior", "auto", "auto, prior", "popularity"):
            torch.testing.assert_close(400 * regret, compare(cents)[name][0], rtol=1e-3, atol=0.1)


def test_popularity_shows_the_candidate_with_the_best_mean():
    scenario = new_users(ratings(), **{**SMALL, "epochs": 5})
    policy = by_popularity()
    decision = policy(scenario.features.popularity)
    assert decision.probs.argmax() == scenario.features.popularity[:, 0].argmax()
    assert play(policy, scenario.popularity, 3, 0).shape == (3, 12)


def test_ratings_that_are_missing_stay_missing():
    data = ratings()
    table = raw_ratings(data, 20)
    assert table.shape == (24, 20)
    films = most_rated(data, 20)
    at = int((data.item == films[3]).argmax())
    assert table[data.user[at], 3] == (data.value[at] - 1) / 4
    assert int((~table.isnan()).sum()) == sum(int((data.item == film).sum()) for film in films)


def test_features_have_a_constant_and_about_unit_length():
    features = film_features(pretrain(raw_ratings(ratings(), 20), epochs=1))
    assert features.items.shape == (20, 14)
    lengths = features.items.norm(dim=-1)
    assert 0.8 < float(lengths.mean()) < 1.2
    assert float(features.items[:, -1].std()) < 1e-6


def test_a_prior_of_the_given_ratings_uses_those_of_the_known_users_only():
    raw = new_users(ratings(), **SMALL, raw_prior=True)
    items, known = raw.features.items, raw_ratings(ratings(), 30)[:12]
    user, film = (~known.isnan()).nonzero(as_tuple=True)
    want = fit_prior(items[film], known[user, film], user)
    torch.testing.assert_close(raw.setting.prior.mean, want.mean)
    assert raw.setting.prior.noise_std == want.noise_std != new_users(ratings(), **SMALL).setting.prior.noise_std
