"""All of it in one call: logs of several users, the report's claims, progress, the same numbers for the same seed."""

import torch

from tests.from_logs.test_posterior import _random
from torch_softucb.from_logs.pipeline import LEARNED, learn_from_log
from torch_softucb.from_logs.report import log_report, regret_by_beta

TINY = {"horizon": 20, "steps": 3, "trajectories": 8, "problems": 16, "compile": False}


def test_several_users(seeded):
    log, _ = _random(900, 5, 3, seeded, bandits=4)
    steps = []
    found = learn_from_log(log, **TINY, progress=lambda stage, total: steps.append((stage, total)))
    assert found.policy.state.num_observations.tolist() == torch.bincount(log.bandit).tolist()
    assert [*found.logged] == ["all decisions"]
    assert found.value.logged.effective_sample_size == 450
    assert steps.count(("Learning beta", 3)) == 3
    assert steps.count(("Playing drawn problems", 19)) == 19
    report = log_report(found, source="a test")
    assert "900 decisions, 4 bandits, 3 features" in report
    assert "up to 5 at a time" in report
    assert f"LinUCB, same beta | {found.regret['LinUCB, same beta'].mean():.4g}" in report
    again = learn_from_log(log, **TINY)
    assert again.betas == found.betas
    assert again.regret[LEARNED].equal(found.regret[LEARNED])
    assert again.value == found.value


def test_nothing_to_gain_is_reported_too(seeded):
    """One arm: nothing to explore, and no regret at all."""
    log, _ = _random(200, 1, 3, seeded)
    found = learn_from_log(log, **TINY)
    assert found.regret[LEARNED].abs().max() < 1e-5
    assert len(regret_by_beta(found).axes) == 1
    assert found.value.gain.value.abs() < 1e-6


def test_the_policy_earns_more_than_chance(seeded):
    """Uniform logging among 5: off-policy, the gain is sure; and it is that of the truth."""
    log, theta = _random(4000, 5, 3, seeded)
    found = learn_from_log(log, **TINY)
    most = (log.features[2000:] @ theta[0]).amax(-1).mean() - (log.x[2000:] @ theta[0]).mean()
    assert found.value.gain.low > 0
    assert found.value.gain.low < most  # the best arm is an upper bound
    assert "SoftUCB earns more than what was logged" in log_report(found, source="a test")
