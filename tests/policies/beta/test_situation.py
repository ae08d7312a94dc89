"""Inputs of beta modules: the same in policies and rollouts, by hand."""

import copy
import math

import pytest
import torch

from tests.policies.beta.modules import D, bent, problem_of
from torch_softucb import SituationBeta, SoftUCBPolicy, rollout


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.97])
def test_policy_and_rollout_see_the_same_situation(masked, discount, seeded):
    """Round by round: ridge statistics and their tally in the policy, what a rollout carries forward, formulas by hand."""
    problem = problem_of(seeded, masked=masked)
    module = bent(SituationBeta(horizon=60, init=0.7), seeded)
    policy = SoftUCBPolicy(4, beta_init=module, coldness="smooth", ridge_alpha=0.7, dtype=D)
    kind = {"horizon": 25, "generator": seeded(2), "record": ("arm", "reward", "beta"), "scores": True}
    played = rollout(policy, problem, discount=discount, **kind)
    policy.reset(batch_shape=(20,))
    V = 0.7 * torch.eye(4, dtype=D).expand(20, 4, 4)
    b, squares, count = torch.zeros(20, 4, dtype=D), torch.zeros(20, dtype=D), 0.0
    for t in range(25):
        decision = policy(problem.arms, mask=problem.mask)
        torch.testing.assert_close(decision.situation, played.situation[t], atol=1e-9, rtol=0)
        torch.testing.assert_close(decision.beta, played.records["beta"][t], atol=1e-9, rtol=0)
        looked = dict(zip(module.inputs, decision.situation.unbind(-1), strict=True))
        residual = squares - (b * torch.linalg.solve(V, b)).sum(-1)
        torch.testing.assert_close(looked["log_noise"], 0.5 * torch.log((residual + 1) / (count + 1)), atol=1e-9, rtol=0)
        torch.testing.assert_close(looked["log_det"], (torch.logdet(V) - 4 * math.log(0.7)) / 4, atol=1e-9, rtol=0)
        allowed = torch.ones(20, 9, dtype=torch.bool) if problem.mask is None else problem.mask
        for i in range(20):
            width = decision.width[i][allowed[i]]
            want = [float(allowed[i].sum()), width.min(), width.mean(), width.max()]
            names = ("log_arms", "log_width_low", "log_width_mid", "log_width_high")
            for name, value in zip(names, want, strict=True):
                assert float(looked[name][i]) == pytest.approx(math.log(value), abs=1e-9)
        arm, reward = played.records["arm"][t], played.records["reward"][t]
        x = problem.arms[torch.arange(20), arm]
        policy.update(x, reward, discount=discount)
        ridge = (1 - discount) * 0.7 * torch.eye(4, dtype=D)
        V = discount * V + ridge + x.unsqueeze(-1) * x.unsqueeze(-2)
        b = discount * b + x * reward.unsqueeze(-1)
        squares, count = discount * squares + reward**2, discount * count + 1


@pytest.mark.parametrize("repeat", [False, True])
def test_running_sums_count_every_way_of_updating(repeat, seeded):
    """Rows in batches, one by one, repeated ids a few times and often: the same noise."""
    module = SituationBeta(horizon=60)
    ids = torch.tensor([0, 1, 0, 2] if not repeat else [0, 1, 0, 2] + [0] * 9)
    x = torch.randn(len(ids), 4, dtype=D, generator=seeded(0))
    y = torch.randn(len(ids), dtype=D, generator=seeded(1))
    one, many = (SoftUCBPolicy(4, beta_init=copy.deepcopy(module), dtype=D) for _ in range(2))
    for policy in (one, many):
        policy.reset(batch_shape=(3,))
    many.update(x, y, bandit=ids)
    for i in range(len(ids)):
        one.update(x[i : i + 1], y[i : i + 1], bandit=ids[i : i + 1])
    torch.testing.assert_close(many.state.memory, one.state.memory, atol=1e-12, rtol=0)
    arms = torch.randn(9, 4, dtype=D, generator=seeded(2))
    torch.testing.assert_close(many(arms).situation, one(arms).situation, atol=1e-9, rtol=0)
    assert many.state.memory[0].tolist() == [int((ids == 0).sum()), pytest.approx(float((y[ids == 0] ** 2).sum()))]
