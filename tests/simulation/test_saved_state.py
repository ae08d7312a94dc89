"""What a saved state must be before a simulation continues from it."""

import pytest
import torch

from tests.simulation.cases import DIM, problem_of, situated
from torch_softucb import NumericalError, SoftUCBPolicy
from torch_softucb.simulation.engine import Simulation
from torch_softucb.simulation.saved_state import check_finite_numbers

TENSORS = ["mu_hat", "width_sq", "root", "gamma", "running_sums", "V", "b", "memory", "noise_key", "action_key"]


def _simulation(seeded, discount=0.9, dtype=torch.double):
    problem = problem_of("own arms", seeded, dtype)
    simulation = Simulation(situated(DIM, dtype=dtype), problem, generator=seeded(1), discount=discount)
    list(simulation.play(3))
    return simulation


def _refused(simulation, saved, error, match):
    before = simulation.state_dict()
    with pytest.raises(error, match=match):
        simulation.load_state_dict(saved)
    after = simulation.state_dict()
    assert all(torch.equal(torch.as_tensor(after[name]), torch.as_tensor(before[name])) for name in before)


@pytest.mark.parametrize("name", TENSORS)
def test_every_tensor_of_another_shape_or_dtype_is_refused(name, seeded):
    simulation = _simulation(seeded)
    saved = simulation.state_dict()
    simulation.load_state_dict(saved)  # fine as it is
    value = saved[name]
    _refused(simulation, saved | {name: torch.zeros(1, dtype=value.dtype)}, ValueError, f"{name} must have shape")
    other = torch.float32 if value.is_floating_point() else torch.float64
    _refused(simulation, saved | {name: value.to(other)}, TypeError, f"{name} must have dtype {value.dtype}, got {other}")
    _refused(simulation, saved | {name: [1.0]}, TypeError, f"{name} must be a dense tensor, got list")
    _refused(simulation, saved | {name: value.to_sparse()}, TypeError, f"{name} must be a dense tensor, got layout")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", TENSORS[:7])
def test_nan_and_inf_are_refused(name, bad, seeded):
    simulation = _simulation(seeded)
    saved = simulation.state_dict()
    saved[name].view(-1)[2] = bad
    _refused(simulation, saved, ValueError, f"{name} must be finite, got 1 NaN or infinite")


def test_values_that_no_simulation_has_are_refused(seeded):
    simulation = _simulation(seeded)
    saved = simulation.state_dict()
    _refused(simulation, saved | {"width_sq": -saved["width_sq"]}, ValueError, "width_sq must not be negative")
    _refused(simulation, saved | {"gamma": saved["gamma"] - 9}, ValueError, "gamma must not be negative")
    _refused(simulation, saved | {"root": 1.1 * saved["root"]}, ValueError, "root must be a factor of the inverse of V")
    for t, error in (
        (-1, ValueError),
        (2**53, ValueError),
        (True, TypeError),
        (1.5, TypeError),
        (torch.tensor(3), TypeError),
    ):
        _refused(simulation, saved | {"t": t}, error, "load_state_dict: t must be")
    _refused(simulation, 3, ValueError, "expected the entries")


def test_arm_counts_must_add_up_to_the_number_of_rounds(seeded):
    simulation = _simulation(seeded, discount=1.0, dtype=torch.float32)
    saved = simulation.state_dict()
    simulation.load_state_dict(saved)
    saved["arm_sums"][..., 1, 0] += 1
    _refused(simulation, saved, ValueError, "arm counts in arm_sums must add up to t = 3")


def test_a_loaded_layout_that_is_not_contiguous_plays_on(seeded):
    simulation, other = _simulation(seeded), _simulation(seeded)
    saved = {k: v.repeat_interleave(2, -1)[..., ::2] if k in TENSORS[:7] else v for k, v in simulation.state_dict().items()}
    other.load_state_dict(saved)
    assert all(getattr(other.state, name).is_contiguous() for name in TENSORS)
    rounds = [torch.cat([played.regret for played in each.play(3)]) for each in (simulation, other)]
    assert rounds[0].equal(rounds[1])


def test_check_finite_numbers_lets_a_sum_overflow():
    check_finite_numbers("x", torch.full((3,), 3e38))
    with pytest.raises(NumericalError, match="x must be finite, got 2 NaN or infinite of 3 values"):
        check_finite_numbers("x", torch.tensor([1.0, float("nan"), float("inf")]))


def test_a_negative_number_of_rounds_is_refused(seeded):
    simulation = Simulation(SoftUCBPolicy(DIM, dtype=torch.double), problem_of("own arms", seeded))
    with pytest.raises(ValueError, match=r"Simulation\.play: rounds must be at least 0, got -1"):
        next(simulation.play(-1))
