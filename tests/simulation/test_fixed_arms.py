"""Rank-one updates against a direct solve."""

import pytest
import torch

from tests.simulation.cases import DIM, NUM_ARMS, problem_of, situated
from torch_softucb import functional as F
from torch_softucb.simulation.engine import Simulation


@pytest.mark.parametrize("shape", ["own arms", "shared arms", "single", "two dims"])
def test_updates_equal_a_direct_solve(shape, seeded):
    """Estimates, running sums and root after 20 observations, against V and b summed up."""
    problem, alpha = problem_of(shape, seeded), 0.3
    simulation = Simulation(situated(DIM, ridge_alpha=alpha, dtype=torch.double), problem)
    arms, state, batch = simulation.backend.setup.arms, simulation.state, problem.batch_shape
    every = problem.arms.expand(*batch, NUM_ARMS, DIM)
    V = alpha * torch.eye(DIM, dtype=torch.double).expand(*batch, DIM, DIM).clone()
    b, squares, g = torch.zeros(*batch, DIM, dtype=torch.double), torch.zeros(batch, dtype=torch.double), seeded(3)
    for _ in range(20):
        arm = torch.randint(0, NUM_ARMS, batch, generator=g)
        reward = torch.randn(batch, dtype=torch.double, generator=g)
        arms.update(state, arm, reward)
        x = every.gather(-2, arm[..., None, None].expand(*batch, 1, DIM)).squeeze(-2)
        V += x.unsqueeze(-1) * x.unsqueeze(-2)
        b += x * reward.unsqueeze(-1)
        squares += reward.square()
    state.t = 20
    estimate = arms.estimate(state, state.num_observations)
    mu_hat, width = F.ridge_estimate(problem.arms, F.ridge_root(V), b)
    close = {"atol": 1e-10, "rtol": 0}
    torch.testing.assert_close(estimate.mu_hat, mu_hat, **close)
    torch.testing.assert_close(estimate.width, width, **close)
    torch.testing.assert_close(estimate.root @ estimate.root.mT, torch.linalg.inv(V), **close)
    count, residual, log_det = estimate.running_sums.unbind(-1)
    assert count.eq(20).all()
    torch.testing.assert_close(residual, F.residual_sum(squares, F.ridge_root(V), b), **close)
    torch.testing.assert_close(log_det, torch.logdet(V / alpha), **close)
    assert float(estimate.num_observations) == 20


def test_perturb_projects_root_times_z(seeded):
    simulation = Simulation(situated(DIM, dtype=torch.double), problem_of("own arms", seeded), generator=seeded(1))
    for _ in simulation.play(5):
        pass
    arms, state = simulation.backend.setup.arms, simulation.state
    estimate = arms.estimate(state, state.num_observations)
    z = torch.randn(38, DIM, dtype=torch.double, generator=seeded(2))
    want = (simulation.problem.arms @ (estimate.root @ z.unsqueeze(-1))).squeeze(-1)
    torch.testing.assert_close(estimate.perturb(z), want)


def test_update_returns_features_and_scaled_residual(seeded):
    """The first observation: s = 1 + |x|^2 / alpha."""
    problem = problem_of("own arms", seeded)
    simulation = Simulation(situated(DIM, ridge_alpha=0.5, dtype=torch.double), problem)
    arm, reward = torch.full((38,), 2), torch.ones(38, dtype=torch.double)
    x, step = simulation.backend.setup.arms.update(simulation.state, arm, reward)
    assert x.movedim(0, -1).equal(problem.arms[:, 2])
    torch.testing.assert_close(step, 1 / (1 + problem.arms[:, 2].square().sum(-1) / 0.5))
