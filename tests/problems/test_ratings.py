import os

import numpy as np
import pytest
import torch

from torch_softucb.problems import Ratings, fill_gaps, load_jester, load_movielens, rating_problem, user_features

needs_data = pytest.mark.skipif("SOFTUCB_DATA" not in os.environ, reason="SOFTUCB_DATA is not set: no real data here")


def _low_rank(users=60, items=20, rank=2):
    random = np.random.default_rng(0)
    return random.normal(size=(users, rank)) @ random.normal(size=(rank, items))


def test_features_are_principal_components():
    table = _low_rank()
    got = user_features(table, dim=2, intercept=False)
    values, vectors = np.linalg.eigh(np.cov(table.T))
    parts = (table - table.mean(0)) @ vectors[:, [-1, -2]]
    parts /= np.linalg.norm(parts, axis=1, keepdims=True)
    np.testing.assert_allclose(np.abs(got), np.abs(parts), atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1)
    assert values[-3] < 1e-10  # rank 2


def test_the_intercept_is_a_constant_and_lengths_stay_1():
    got = user_features(_low_rank(), dim=3, intercept=True)
    assert got.shape == (60, 4)
    np.testing.assert_allclose(got[:, 3], 1 / np.sqrt(2))
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1)


def test_users_are_drawn_without_replacement_from_many(seeded):
    table = np.random.default_rng(1).random((2000, 9))
    table[:, -1] = np.arange(2000)  # the rating of the target names the user
    means = rating_problem(table, num_problems=300, num_arms=50, dim=4, generator=seeded(0), dtype=torch.double).means
    assert all(len(set(row.tolist())) == 50 for row in means)
    counts = torch.bincount(means.long().flatten(), minlength=2000).double()
    chi = ((counts - 7.5).square() / 7.5).sum().item()
    assert abs(chi - 1999) < 5 * (2 * 1999) ** 0.5  # every user as often
    again = rating_problem(table, num_problems=3, num_arms=50, dim=4, generator=seeded(0), dtype=torch.double).means
    assert again.equal(means[:3])


def test_a_problem_is_users_and_their_rating_of_the_target(seeded):
    table = np.random.default_rng(1).random((40, 9))
    problem = rating_problem(table, num_problems=7, num_arms=12, dim=4, generator=seeded(0), dtype=torch.double)
    features = torch.as_tensor(user_features(table[:, :-1], dim=4, intercept=False))
    for arms, means in zip(problem.arms, problem.means, strict=True):
        match = (arms[:, None] - features[None]).abs().amax(-1) < 1e-12
        users = match.long().argmax(1)
        assert len(set(users.tolist())) == 12  # without replacement
        np.testing.assert_array_equal(means.numpy(), table[users.numpy(), -1])
    again = rating_problem(table, num_problems=3, num_arms=12, dim=4, generator=seeded(0), dtype=torch.double)
    assert again.means.equal(problem.means[:3])


@pytest.mark.parametrize(
    ("kind", "match"),
    [({"dim": 9}, "dim must be at most 8"), ({"num_arms": 41}, "num_arms at most 40"), ({"noise_std": -1.0}, "noise_std")],
)
def test_bad_settings(kind, match):
    with pytest.raises(ValueError, match=match):
        rating_problem(np.random.default_rng(1).random((40, 9)), **({"num_problems": 2, "num_arms": 5, "dim": 3} | kind))
    table = np.full((40, 9), np.nan)
    with pytest.raises(ValueError, match="ratings must have no gaps, got 360; use fill_gaps"):
        rating_problem(table, num_problems=2, num_arms=5, dim=3)


def test_gaps_are_filled_by_what_similar_users_say():
    """A low-rank table with a third of its entries hidden: closer to the truth than means alone; what is there stays."""
    random = np.random.default_rng(2)
    truth = np.clip(3 + _low_rank(400, 60, 3) * 0.7, 1, 5)
    seen = random.random(truth.shape) < 0.67
    user, item = np.nonzero(seen)
    got = fill_gaps(Ratings(user, item, truth[seen], 400, 60), num_items=30, rank=3)
    chosen = np.sort(np.argsort(-seen.sum(0), kind="stable")[:30])
    want, there = (truth[:, chosen] - truth[seen].min()) / (truth[seen].max() - truth[seen].min()), seen[:, chosen]
    np.testing.assert_allclose(got[there], want[there], atol=1e-12)
    error, base = np.abs(got - want)[~there].mean(), np.abs(want - want.mean(0))[~there].mean()
    assert error < 0.7 * base
    assert got.min() >= 0
    assert got.max() <= 1


@needs_data
def test_jester_is_what_its_papers_say():
    table = load_jester()
    assert table.shape == (19181, 40)
    assert 20 * table.mean() - 10 == pytest.approx(1.505, abs=1e-3)


@needs_data
@pytest.mark.parametrize(
    ("folder", "users", "items", "count", "mean"),
    [
        ("ml-1m", 6040, 3706, 1_000_209, 3.5816),
        ("ml-100k", 943, 1682, 100_000, 3.52986),
        ("ml-latest-small", 610, 9724, 100_836, 3.5016),
    ],
)
def test_movielens_is_what_its_readme_says(folder, users, items, count, mean):
    ratings = load_movielens(os.path.join(os.environ["SOFTUCB_DATA"], folder))
    assert (ratings.num_users, ratings.num_items, len(ratings.value)) == (users, items, count)
    assert ratings.value.mean() == pytest.approx(mean, abs=1e-4)
    table = fill_gaps(ratings)
    assert table.shape == (users, 40)
    assert table.min() >= 0
    assert table.max() <= 1
    assert np.array_equal(table, fill_gaps(ratings))
