"""Eq. 15, step by step, against the public formula; Algorithm 3 by loops is in tests/training/test_online.py."""

import pytest
import torch

from torch_softucb import SoftUCBPolicy, synthetic_problem
from torch_softucb import functional as F
from torch_softucb.learning import OnlineDual, online_step, run_online
from torch_softucb.simulation.engine import Simulation


def test_a_step_is_eq_15_and_its_parts_add_up(seeded):
    reward, past, widths, beta = torch.rand(4, 7, generator=seeded(0), dtype=torch.double).unbind(0)
    step = online_step(beta, -reward, past, widths, t=3, horizon=10, eta=0.4)
    want = F.online_gradient(-reward, past, widths, t=3, horizon=10, eta=0.4)
    assert step.gradient.equal(want.gradient)
    assert step.past.equal(want.past)
    torch.testing.assert_close(step.reward + step.penalty, step.gradient, atol=1e-15, rtol=0)
    assert step.penalty.equal(0.4 * (widths / 10))


def test_with_a_dual_variable_both_take_their_step(seeded):
    reward, past, widths, beta = torch.rand(4, 7, generator=seeded(0), dtype=torch.double).unbind(0)
    dual = OnlineDual(0.9, beta=beta)
    kappa, log_eta = dual.kappa.clone(), dual.log_eta.clone()
    step = online_step(beta, -reward, past, widths, t=3, horizon=10, eta=dual)
    plain = F.online_gradient(-reward, past, widths, t=3, horizon=10, eta=0.0).gradient
    want = F.online_dual_step(beta, kappa, plain, widths / 10, log_eta, target=0.9)
    assert step.gradient.equal(want.gradient)
    assert dual.log_eta.equal(want.log_eta)
    assert step.reward.equal(plain)


@pytest.mark.parametrize("compile", [False, "native"])
def test_a_run_moves_every_trajectorys_beta(compile, seeded):
    problem = synthetic_problem(num_problems=16, num_arms=6, dim=3, dtype=torch.double, generator=seeded(0))
    policy = SoftUCBPolicy(3, beta_init=torch.full((16,), 0.7, dtype=torch.double), dtype=torch.double)
    simulation = Simulation(policy, problem, gradient=True, compile=compile, generator=seeded(1))
    run = run_online(policy, simulation, horizon=30, eta=0.3, lr=0.2)
    assert run.regret.shape == run.beta.shape == (30, 16)
    assert (run.beta[0] == 0.7).all()
    assert (run.beta >= 0).all()
    assert (run.regret.diff(dim=0) >= 0).all()
    assert len(set(run.beta[-1].tolist())) == 16
