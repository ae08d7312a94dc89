"""Rollouts raise NumericalError that names the culprit, in every backend, instead of playing on with NaN."""

import pytest
import torch

from tests.simulation.cases import DIM, POLICIES, find_compiler, problem_of, situated
from torch_softucb import NumericalError, SoftUCBPolicy, rollout
from torch_softucb.simulation.engine import Simulation

BACKENDS = [False, "native", pytest.param(True, marks=pytest.mark.slow)]


@pytest.mark.parametrize("compile", BACKENDS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_beta_that_is_not_finite_is_named(bad, compile, seeded):
    if compile and find_compiler() is None:
        pytest.skip("needs a C++ compiler")
    policy = SoftUCBPolicy(DIM, dtype=torch.double)
    policy.raw_beta.data.fill_(bad)
    match = "regret from round" if compile is True else "beta"
    with pytest.raises(NumericalError, match=match):
        rollout(policy, problem_of("own arms", seeded), horizon=5, generator=seeded(1), compile=compile)


@pytest.mark.parametrize("compile", [False, "native"])
def test_a_beta_too_large_for_float32_does_not_play_on(compile, seeded):
    if compile and find_compiler() is None:
        pytest.skip("needs a C++ compiler")
    policy = SoftUCBPolicy(DIM, beta_init=3e38)
    with pytest.raises(NumericalError, match=r"index|regret"):
        rollout(policy, problem_of("own arms", seeded, torch.float32), horizon=5, generator=seeded(1), compile=compile)


@pytest.mark.parametrize("compile", [False, "native"])
@pytest.mark.parametrize("name", ["mu_hat", "width_sq", "root", "gamma", "running_sums", "V", "b"])
def test_statistics_that_are_not_finite_are_named(name, compile, seeded):
    if compile and find_compiler() is None:
        pytest.skip("needs a C++ compiler")
    simulation = Simulation(situated(DIM, dtype=torch.double), problem_of("own arms", seeded), discount=0.9, compile=compile)
    list(simulation.play(2, recorded=lambda t: False))
    getattr(simulation.state, name).view(-1)[1] = float("nan")
    with pytest.raises(NumericalError, match=f"rollout: {name} must be finite, got 1 NaN"):
        list(simulation.play(2, recorded=lambda t: False))
    assert simulation.t == 2


@pytest.mark.parametrize("compile", [False, "native"])
@pytest.mark.parametrize("name", POLICIES)
def test_means_that_are_not_finite_are_named(name, compile, seeded):
    if compile and find_compiler() is None:
        pytest.skip("needs a C++ compiler")
    simulation = Simulation(POLICIES[name](DIM, dtype=torch.double), problem_of("own arms", seeded), compile=compile)
    simulation.environment.means[2, 3] = float("nan")
    with pytest.raises(NumericalError, match="the mean rewards of the problem must be finite"):
        list(simulation.play(2, recorded=lambda t: False))


@pytest.mark.parametrize("bad", [float("nan"), -1.0])
def test_a_width_that_goes_wrong_between_checks_is_named_in_its_round(bad, seeded):
    simulation = Simulation(SoftUCBPolicy(DIM, dtype=torch.double), problem_of("own arms", seeded))
    rounds = simulation.play(40, recorded=lambda t: False)
    while next(rounds).t < 3:
        pass
    simulation.state.width_sq.view(-1)[0] = bad
    with pytest.raises(NumericalError, match=r"width\^2 is negative or NaN for 1 of \d+ arms at round 5"):
        next(rounds)
    assert simulation.t == 4
