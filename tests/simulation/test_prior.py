"""Rollouts of policies with a prior: the same decisions as the policy itself makes, round by round."""

import pytest
import torch

from tests.policies.cases import AUTO, NUM_ARMS, PRIOR, build
from tests.simulation.cases import needs_compiler
from torch_softucb import BanditProblem, rollout

D = torch.double
DIM, BATCH, ROUNDS = 4, 3, 25


def _problem(seeded, *, shared=True):
    g = seeded(0)
    arms = torch.randn(*(() if shared else (BATCH,)), NUM_ARMS, DIM, generator=g, dtype=D)
    return BanditProblem(arms=arms, means=2 + torch.randn(BATCH, NUM_ARMS, generator=g, dtype=D), noise_std=0.3)


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
@pytest.mark.parametrize("name", PRIOR)
def test_a_rollout_decides_as_the_policy_does(name, shared, discount, seeded):
    problem, policy = _problem(seeded, shared=shared), build(name, DIM, dtype=D, batch=(BATCH,))
    recorded = ("arm", "reward", "mu_hat", "width", "index")
    played = rollout(policy, problem, horizon=ROUNDS, generator=seeded(1), record=recorded, discount=discount)
    for t in range(ROUNDS):
        with torch.no_grad():
            decision = policy(problem.arms)
        for field in ("mu_hat", "width", "index"):
            torch.testing.assert_close(played.records[field][t], getattr(decision, field), atol=1e-9, rtol=1e-9)
        arm, reward = played.records["arm"][t], played.records["reward"][t]
        x = problem.arms.expand(BATCH, -1, -1)[torch.arange(BATCH), arm]
        policy.update(x, reward, decision=decision, arm=arm, discount=discount)
    if PRIOR[name] in AUTO:
        for field in ("offset", "noise_std", "prior_std"):
            torch.testing.assert_close(getattr(played.scales, field), getattr(policy, field), atol=1e-9, rtol=1e-9)


@needs_compiler
def test_the_native_kernel_plays_with_a_prior(seeded):
    problem, policy = _problem(seeded), build("soft_ucb_prior", DIM, dtype=D)
    eager = rollout(policy, problem, horizon=25, generator=seeded(1))
    native = rollout(policy, problem, horizon=25, generator=seeded(1), compile="native")
    torch.testing.assert_close(native.regret, eager.regret, atol=1e-10, rtol=1e-10)


def test_scores_and_gradients_of_a_policy_with_a_prior(seeded):
    problem, policy = _problem(seeded), build("soft_ucb_prior", DIM, dtype=D)
    played = rollout(policy, problem, horizon=5, generator=seeded(1), scores=True, gradient=True)
    assert all(value.isfinite().all() for value in (*played.scores.values(), *played.gradient))
