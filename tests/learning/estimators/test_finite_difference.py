"""Central differences with common random numbers."""

import math

import pytest
import torch

from tests.learning.estimators.cases import D, small_problem
from torch_softucb import ScheduleBeta, SituationBeta, SoftUCBPolicy
from torch_softucb.learning import Episode
from torch_softucb.learning.estimators.finite_difference import common_random_numbers, difference


def test_differences_at_zero_are_taken_from_zero(seeded):
    """beta reads as 0 below 0, so the lower end is 0 and the distance that is left is what is divided by."""
    episode = Episode(small_problem(256, seeded), 1, 2)
    policy = SoftUCBPolicy(3, beta_init=0.0, coldness="smooth", dtype=D)
    got = difference(policy, episode, policy.raw_beta, 0, horizon=30, compile=False)
    step = 0.01
    low, high = (
        episode.play(SoftUCBPolicy(3, beta_init=end, coldness="smooth", dtype=D), horizon=30).regret.mean()
        for end in (0.0, step)
    )
    torch.testing.assert_close(got, (low - high) / step, atol=1e-9, rtol=1e-9)


def test_a_schedules_differences_are_taken_a_tenth_of_beta_apart(seeded):
    episode = Episode(small_problem(64, seeded), 1, 2)
    policy = SoftUCBPolicy(3, beta_init=ScheduleBeta(20, init=1.0), coldness="smooth", dtype=D)
    raw = policy.beta_module.log_beta
    got = difference(policy, episode, raw, 0, horizon=20, compile=False)
    low, high = (
        episode.play(
            SoftUCBPolicy(
                3,
                beta_init=ScheduleBeta(20, init=torch.tensor([math.exp(end), 1.0, 1.0, 1.0, 1.0], dtype=D)),
                coldness="smooth",
                dtype=D,
            ),
            horizon=20,
        ).regret.mean()
        for end in (-0.1, 0.1)
    )
    torch.testing.assert_close(got, (low - high) / 0.2, atol=1e-6, rtol=1e-4)  # the module starts in float32


def test_a_failing_rollout_leaves_the_parameter_as_it_was(seeded, monkeypatch):
    policy = SoftUCBPolicy(3, beta_init=0.5, coldness="smooth", dtype=D)
    episode = Episode(small_problem(8, seeded), 1, 2)

    def fails(*_, **__):
        raise MemoryError

    monkeypatch.setattr(Episode, "play", fails)
    with pytest.raises(MemoryError):
        difference(policy, episode, policy.raw_beta, 0, horizon=5, compile=False)
    assert policy.raw_beta.item() == 0.5


def test_many_numbers_are_refused_before_anything_is_played(seeded):
    policy = SoftUCBPolicy(3, beta_init=SituationBeta(horizon=9), coldness="smooth", dtype=D)
    with pytest.raises(ValueError, match="at most 64 numbers"):
        common_random_numbers(policy, Episode(small_problem(8, seeded), 1, 2), horizon=5)
