"""The whole pipeline: logs of several users, regret by beta, progress, the same numbers for the same seed."""

import pytest
import torch

from tests.from_logs.cases import random_log
from torch_softucb.from_logs.pipeline import LEARNED, learn_from_log

TINY = {"horizon": 20, "steps": 3, "trajectories": 8, "problems": 16, "compile": False}


def test_several_users(seeded):
    log, _ = random_log(900, 5, 3, seeded, bandits=4)
    steps = []
    result = learn_from_log(log, **TINY, progress=lambda stage, total: steps.append((stage, total)))
    assert result.policy.state.num_observations.tolist() == torch.bincount(log.bandit).tolist()
    assert [*result.logged] == ["all decisions"]
    assert result.value.logged.effective_sample_size == 450
    assert steps.count(("Learning beta", 3)) == 3
    assert steps.count(("Playing drawn problems", 19)) == 19
    again = learn_from_log(log, **TINY)
    assert again.betas == result.betas
    assert again.regret[LEARNED].equal(result.regret[LEARNED])
    assert again.value == result.value


def test_the_curve_holds_the_learned_beta_and_multiples_of_it(seeded):
    log, _ = random_log(300, 5, 3, seeded)
    result = learn_from_log(log, **TINY)
    beta = result.betas[-1]
    assert [*result.curve] == pytest.approx([beta * factor for factor in (1 / 8, 1 / 4, 1 / 2, 2**-0.5, 1, 2**0.5, 2, 4, 8)])
    soft_ucb, lin_ucb = result.curve[beta]
    assert soft_ucb is result.regret[LEARNED]
    assert lin_ucb is result.regret["LinUCB, same beta"]
    for soft_ucb, lin_ucb in result.curve.values():
        assert soft_ucb.shape == lin_ucb.shape == (16,)
        assert not soft_ucb.equal(lin_ucb)


def test_without_candidates_nothing_is_evaluated(seeded):
    log, _ = random_log(300, 5, 3, seeded)
    hidden = log._replace(features=log.features[:, :0], candidates=log.candidates[:, :0])
    result = learn_from_log(hidden, **TINY, num_arms=4)
    assert result.value is None
    assert result.logged == {}
    assert result.earlier_beta == result.betas[-1]
    assert result.posterior.offered.rows.shape == (300, 4)


def test_nothing_to_gain_is_found_with_one_arm(seeded):
    """One arm: nothing to explore, and no regret at all."""
    log, _ = random_log(200, 1, 3, seeded)
    result = learn_from_log(log, **TINY)
    assert result.regret[LEARNED].abs().max() < 1e-5
    assert result.value.gain.value.abs() < 1e-6


def test_the_policy_earns_more_than_chance(seeded):
    """Uniform logging among 5: off-policy, the gain is sure; and it is that of the truth."""
    log, theta = random_log(4000, 5, 3, seeded)
    result = learn_from_log(log, **TINY)
    most = (log.features[2000:] @ theta[0]).amax(-1).mean() - (log.x[2000:] @ theta[0]).mean()
    assert result.value.gain.low > 0
    assert result.value.gain.low < most  # the best arm is an upper bound
