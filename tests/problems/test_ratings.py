"""Problems from ratings: features, users drawn as arms, bad settings."""

import numpy as np
import pytest
import torch

from tests.statistics_checks import FALSE_ALARM, assert_frequencies, every_seed, frequency_p
from torch_softucb.problems import rating_problem, user_features, users_problem


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


@every_seed
def test_users_are_drawn_without_replacement_from_many(seed, seeded):
    table = np.random.default_rng(1).random((2000, 9))
    table[:, -1] = np.arange(2000)  # the rating of the target names the user
    means = rating_problem(table, num_problems=300, num_arms=50, dim=4, generator=seeded(seed), dtype=torch.double).means
    assert all(len(set(row.tolist())) == 50 for row in means)
    counts = torch.bincount(means.long().flatten(), minlength=2000).double()
    assert_frequencies(counts.view(100, 20).sum(-1).tolist(), [0.01] * 100)  # every user as often; false alarms 1e-6
    counts[:100] *= 2  # power: 5% of the users twice as often
    assert frequency_p(counts.view(100, 20).sum(-1).tolist(), [0.01] * 100) < FALSE_ALARM
    again = rating_problem(table, num_problems=3, num_arms=50, dim=4, generator=seeded(seed), dtype=torch.double).means
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
    ("wrong", "match"),
    [({"dim": 9}, "dim must be at most 8"), ({"num_arms": 41}, "num_arms at most 40"), ({"noise_std": -1.0}, "noise_std")],
)
def test_bad_settings(wrong, match):
    with pytest.raises(ValueError, match=match):
        rating_problem(np.random.default_rng(1).random((40, 9)), **({"num_problems": 2, "num_arms": 5, "dim": 3} | wrong))
    table = np.full((40, 9), np.nan)
    with pytest.raises(ValueError, match="ratings must have no gaps, got 360; use fill_gaps"):
        rating_problem(table, num_problems=2, num_arms=5, dim=3)


def test_given_features_and_rewards_draw_the_same_problems(seeded):
    """rating_problem is user_features followed by users_problem."""
    table = np.random.default_rng(1).random((40, 9))
    want = rating_problem(table, num_problems=4, num_arms=6, dim=3, target=2, intercept=True, generator=seeded(0))
    features = user_features(np.delete(table, 2, axis=1), dim=3, intercept=True)
    got = users_problem(features, table[:, 2], num_problems=4, num_arms=6, generator=seeded(0))
    assert got.arms.equal(want.arms)
    assert got.means.equal(want.means)
