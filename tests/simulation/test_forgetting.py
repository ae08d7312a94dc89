"""Forgetting in a simulation against ``policy.update(discount=)``."""

import pytest
import torch

from tests.simulation.cases import DIM, NUM_ARMS, problem_of, situated
from torch_softucb.simulation.engine import Simulation


@pytest.mark.parametrize("shape", ["own arms", "shared arms", "single"])
def test_equals_the_policys_own_update(shape, seeded):
    problem, policy = problem_of(shape, seeded), situated(DIM, ridge_alpha=0.3, dtype=torch.double)
    simulation, batch = Simulation(policy, problem, discount=0.9), problem.batch_shape
    arms, state = simulation.backend.setup.arms, simulation.state
    policy.reset(batch_shape=tuple(batch))
    every, g = problem.arms.expand(*batch, NUM_ARMS, DIM), seeded(3)
    for _ in range(15):
        arm = torch.randint(0, NUM_ARMS, batch, generator=g)
        reward = torch.randn(batch, dtype=torch.double, generator=g)
        arms.update(state, arm, reward)
        x = every.gather(-2, arm[..., None, None].expand(*batch, 1, DIM)).squeeze(-2)
        decision = policy(problem.arms)
        policy.update(x, reward, decision=decision, discount=0.9)
    close = {"atol": 1e-9, "rtol": 0}
    torch.testing.assert_close(state.V.movedim((0, 1), (-2, -1)), policy.state.V, **close)
    torch.testing.assert_close(state.b.movedim(0, -1), policy.state.b, **close)
    decision, estimate = policy(problem.arms), arms.estimate(state, state.num_observations)
    torch.testing.assert_close(estimate.mu_hat, decision.mu_hat, **close)
    torch.testing.assert_close(estimate.width, decision.width, **close)
    count = (1 - 0.9**15) / (1 - 0.9)
    torch.testing.assert_close(estimate.running_sums[..., 0], torch.full(batch, count, dtype=torch.double))
    torch.testing.assert_close(
        estimate.running_sums[..., 2],
        torch.logdet(policy.state.V / 0.3),
        **close,
    )


def test_a_discount_near_one_approaches_plain_updates(seeded):
    problem, policy = problem_of("own arms", seeded), situated(DIM, dtype=torch.double)
    ends = []
    for discount in (1.0, 1.0 - 1e-12):
        simulation = Simulation(policy, problem, generator=seeded(1), discount=discount)
        for _ in simulation.play(20):
            pass
        ends.append(simulation.state)
    for name in ("mu_hat", "width_sq", "running_sums"):
        if name == "running_sums":  # the sum of squares is kept only where it is needed
            assert ends[0].running_sums[3].eq(0).all()
            torch.testing.assert_close(ends[0].running_sums[:3], ends[1].running_sums[:3], atol=1e-8, rtol=0)
        else:
            torch.testing.assert_close(getattr(ends[0], name), getattr(ends[1], name), atol=1e-8, rtol=0)
