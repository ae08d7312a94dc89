"""Policies over one fixed set of arms: memory, masks, refusals, rollouts."""

import numpy as np
import pytest
import torch

from tests.policies.history import D, K, played_history
from torch_softucb import (
    EXP3,
    BootstrappedUCB,
    BootstrapThompson,
    LinGiro,
    LinPHE,
    PhasedElimination,
    SoftElim,
    rollout,
    synthetic_problem,
)
from torch_softucb.simulation.engine import Simulation

MADE = {
    "exp3": lambda **policy_kwargs: EXP3(D, K, exploration=0.2, **policy_kwargs),
    "phased": lambda **policy_kwargs: PhasedElimination(D, K, **policy_kwargs),
    "bootstrapped_ucb": lambda **policy_kwargs: BootstrappedUCB(D, K, **policy_kwargs),
    "bootstrap_thompson": lambda **policy_kwargs: BootstrapThompson(D, K, **policy_kwargs),
    "lin_phe": lambda **policy_kwargs: LinPHE(D, K, reward_low=-1.0, **policy_kwargs),
    "lin_giro": lambda **policy_kwargs: LinGiro(D, K, reward_low=-1.0, **policy_kwargs),
}


@pytest.mark.parametrize("name", MADE)
def test_rollout_equals_a_plain_loop(name, seeded):
    problem = synthetic_problem(num_problems=5, num_arms=K, dim=D, dtype=torch.double, generator=seeded(0))
    policy = MADE[name](dtype=torch.double)
    got = rollout(policy, problem, horizon=30, generator=seeded(9), record=["arm", "reward", "index"])
    policy.reset(batch_shape=(5,))
    streams = Simulation(policy, problem, generator=seeded(9))
    noise, draws = streams._noise(0, 30), streams._draws(0, 30)
    for t in range(30):
        with torch.no_grad():
            decision = policy(problem.arms)
        arm = decision.pick(draws[t])
        assert got.records["arm"][t].equal(arm)
        torch.testing.assert_close(got.records["index"][t], decision.index, atol=1e-9, rtol=0)
        reward = problem.means.gather(-1, arm.unsqueeze(-1)).squeeze(-1) + noise[t]
        policy.update(problem.arms[torch.arange(5), arm], reward, decision=decision, arm=arm)


@pytest.mark.parametrize("name", MADE)
def test_masks_batches_and_single_bandits(name, seeded):
    problem = synthetic_problem(num_problems=4, num_arms=K, dim=D, dtype=torch.double, generator=seeded(1))
    mask = torch.rand(4, K, generator=seeded(2)) > 0.5
    mask[:, 2] = True
    masked = type(problem)(problem.arms, problem.means, 0.5, mask)
    got = rollout(MADE[name](dtype=torch.double), masked, horizon=40, generator=seeded(3), record=["arm"])
    assert mask.gather(-1, got.records["arm"].T).all()
    for i in range(4):
        alone = rollout(MADE[name](dtype=torch.double), masked[i], horizon=40, generator=seeded(3), record=["arm"])
        assert alone.records["arm"].equal(got.records["arm"][:, i])


@pytest.mark.parametrize("name", MADE)
def test_bad_input_changes_nothing(name):
    policy = MADE[name]()
    arms, reward = torch.eye(D).repeat(2, 1), torch.tensor(1.0)
    with torch.no_grad():
        decision = policy(arms)
    before = policy.statistics.clone()
    for settings, match in [
        ({}, "decision and arm must be given"),
        ({"decision": decision}, "decision and arm must be given"),
        ({"decision": decision, "arm": torch.tensor(K)}, r"arm must be in \[0, 6\)"),
        ({"decision": decision, "arm": torch.tensor(1.0)}, "arm must be an int64"),
    ]:
        with pytest.raises((TypeError, ValueError), match=match):
            policy.update(arms[0], reward, **settings)
    with pytest.raises(ValueError, match="one observation per bandit"):
        policy.update(arms[:2], torch.ones(2), decision=decision, arm=torch.tensor(0))
    with pytest.raises(ValueError, match="6 arms that the policy was made for, got 2"):
        policy(arms[:2])
    assert policy.statistics.equal(before)


@pytest.mark.parametrize("name", MADE)
def test_state_dict_brings_the_memory(name, seeded):
    policy = MADE[name](dtype=torch.double)
    arms, _ = played_history(policy, seeded, 10)
    other = MADE[name](dtype=torch.double)
    other.load_state_dict(policy.state_dict())
    z = torch.randn(policy.normals_per_decision or 1, dtype=torch.double, generator=seeded(1)).squeeze()
    with torch.no_grad():
        assert (
            other(arms)
            .pick(z.abs() % 1 if not policy.normals_per_decision else z)
            .equal(policy(arms).pick(z.abs() % 1 if not policy.normals_per_decision else z))
        )


@pytest.mark.parametrize("name", ["lin_phe", "lin_giro"])
def test_the_first_rounds_span_the_features(name, seeded):
    """With rewards that are all positive, a policy that begins with any one arm would never leave it."""
    problem = synthetic_problem(num_problems=20, num_arms=30, dim=D, dtype=torch.double, generator=seeded(0))
    positive = type(problem)(problem.arms, problem.means + 2.0, 0.1)
    policy = type(MADE[name]())(D, 30, reward_low=0.0, reward_high=4.0, dtype=torch.double)
    got = rollout(policy, positive, horizon=200, generator=seeded(1), record=["arm"])
    played = problem.arms[torch.arange(20), got.records["arm"][:D]]  # (D, 20, D)
    assert (torch.linalg.svdvals(played.transpose(0, 1))[:, -1] > 0.1).all()
    assert (got.records["arm"].T.sort(-1).values.diff(dim=-1) > 0).sum(-1).min() >= 3


LARGE = {
    "exp3": lambda **policy_kwargs: EXP3.theoretical(
        10, 50, horizon=1024, reward_low=-2.0, reward_high=2.0, **policy_kwargs
    ),
    "phased": lambda **policy_kwargs: PhasedElimination(10, 50, **policy_kwargs),
    "bootstrapped_ucb": lambda **policy_kwargs: BootstrappedUCB(10, 50, **policy_kwargs),
    "bootstrap_thompson": lambda **policy_kwargs: BootstrapThompson(10, 50, **policy_kwargs),
    "lin_phe": lambda **policy_kwargs: LinPHE(10, 50, reward_low=-1.0, **policy_kwargs),
    "lin_giro": lambda **policy_kwargs: LinGiro(10, 50, reward_low=-1.0, **policy_kwargs),
    "soft_elim": lambda **policy_kwargs: SoftElim(10, **policy_kwargs),
}


@pytest.mark.long
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_worse_than_uniform_and_sublinear(name, dtype, seeded):
    """At published or default settings, on the synthetic problem: slope of log regret against log t over the last half."""
    problem = synthetic_problem(num_problems=64, dtype=dtype, generator=seeded(0))
    regret = rollout(LARGE[name](dtype=dtype), problem, horizon=1024, generator=seeded(1)).cumulative_regret.mean(-1)
    uniform = 1024 * (problem.best_mean - problem.means.mean(-1)).mean().item()
    t = torch.arange(1, 1025, dtype=torch.double)
    slope = np.polyfit(t[512:].log().numpy(), regret[512:].double().log().numpy(), 1)[0]
    print(f"{name}: regret {regret[-1]:.1f}, uniform {uniform:.1f}, slope {slope:.3f}")
    assert regret[-1] <= uniform * 1.02
    assert slope < (1.02 if name == "exp3" else 0.95)


@pytest.mark.parametrize(
    ("moments", "possible"),
    [
        ((2.0, 2.0, 2.0), True),  # rewards 1 and 1
        ((2.0, -2.0, 2.0), True),
        ((2.0, 2.01, 2.0), False),  # (sum y)^2 > n sum y^2
        ((2.0, -2.01, 2.0), False),
        ((0.0, 0.0, 0.0), True),
        ((-1.0, 0.0, 0.0), False),
        ((1.0, 0.0, -1.0), False),
    ],
)
def test_moments_that_no_rewards_have_are_found(moments, possible):
    policy = LinGiro(2, 3)
    memory = policy.fresh_memory((2,))
    memory[1, 2::3] = torch.tensor(moments, dtype=torch.double)  # of the last arm
    assert policy.impossible_memory(memory).tolist() == [False, not possible]
