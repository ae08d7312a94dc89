"""PlayState: the first round, saving and loading, the check of the widths."""

from dataclasses import fields

import pytest
import torch

from tests.simulation.cases import DIM, NUM_ARMS, problem_of, situated
from torch_softucb import LinUCB, NumericalError
from torch_softucb.policies import LinPHE
from torch_softucb.simulation.arm_features import ArmFeatures
from torch_softucb.simulation.state import RUNNING_SUMS, PlayState


def _fresh(policy, problem, forgets=False):
    keys = {"noise_key": torch.tensor(1), "action_key": torch.tensor(2)}
    return PlayState.fresh(policy, problem, ArmFeatures(problem), forgets=forgets, **keys)


@pytest.mark.parametrize("shape", ["own arms", "shared arms", "single", "two dims"])
def test_the_first_state_is_that_of_v_equal_to_alpha_i(shape, seeded):
    problem = problem_of(shape, seeded)
    state = _fresh(situated(DIM, ridge_alpha=0.25, dtype=torch.double), problem, forgets=True)
    batch = problem.batch_shape
    arms = problem.arms.expand(*batch, NUM_ARMS, DIM)
    torch.testing.assert_close(state.width_sq.movedim(0, -1), arms.square().sum(-1) / 0.25)
    eye = torch.eye(DIM, dtype=torch.double).expand(*batch, DIM, DIM)
    torch.testing.assert_close(state.root.movedim((0, 1), (-2, -1)), 2 * eye)
    torch.testing.assert_close(state.V.movedim((0, 1), (-2, -1)), 0.25 * eye)
    assert state.mu_hat.shape == (NUM_ARMS, *batch)
    assert state.b.shape == (DIM, *batch)
    assert state.running_sums.shape == (len(RUNNING_SUMS), *batch)
    assert state.gamma.shape == batch
    assert state.t == 0
    for tensor in (state.mu_hat, state.b, state.running_sums, state.gamma):
        assert tensor.eq(0).all()
        assert tensor.is_contiguous()


def test_only_what_is_needed_is_there(seeded):
    state = _fresh(LinUCB(DIM, dtype=torch.double), problem_of("own arms", seeded))
    assert state.V is state.b is state.running_sums is None
    assert state.memory.shape == (38, 0)
    assert set(state.state_dict()) == {field.name for field in fields(PlayState)} - {
        "V",
        "b",
        "running_sums",
        "arm_sums",
        "scales",
        "offset_width_sq",
    }
    remembered = _fresh(LinPHE(DIM, NUM_ARMS, dtype=torch.double), problem_of("own arms", seeded))
    assert remembered.memory.shape == (38, 3 * NUM_ARMS)


def test_tensors_come_in_the_order_of_the_fields(seeded):
    state = _fresh(LinUCB(DIM, dtype=torch.double), problem_of("own arms", seeded), forgets=True)
    names = [field.name for field in fields(PlayState) if field.name != "t"]
    assert all(tensor is getattr(state, name) for name, tensor in zip(names, state.tensors(), strict=True))


def test_saving_and_loading_copies(seeded):
    problem, policy = problem_of("own arms", seeded), situated(DIM, dtype=torch.double)
    state, other = _fresh(policy, problem, forgets=True), _fresh(policy, problem, forgets=True)
    state.mu_hat += 1
    state.t = 7
    saved = state.state_dict()
    other.load_state_dict(saved)
    assert other.t == 7
    assert all(torch.equal(getattr(other, name), getattr(state, name)) for name in saved if name != "t")
    state.mu_hat += 1
    other.root += 1
    assert saved["mu_hat"].eq(1).all()
    assert other.mu_hat.eq(1).all()
    assert not saved["root"].equal(other.root)


def test_a_state_of_another_simulation_is_refused_and_changes_nothing(seeded):
    problem, policy = problem_of("own arms", seeded), LinUCB(DIM, dtype=torch.double)
    state = _fresh(policy, problem)
    before = state.state_dict()
    with pytest.raises(
        ValueError, match=r"load_state_dict: expected the entries .* got .*'V'.*same policy, problem and discount"
    ):
        state.load_state_dict(_fresh(policy, problem, forgets=True).state_dict())
    with pytest.raises(ValueError, match=r"mu_hat must have shape \(12, 38\), got \(12, 5\)"):
        state.load_state_dict(_fresh(policy, problem[:5]).state_dict())
    assert all(torch.equal(value, before[name]) for name, value in state.state_dict().items() if name != "t")


@pytest.mark.parametrize("bad", [-1.0, float("nan")])
def test_widths_that_cannot_be_right_raise(bad, seeded):
    state = _fresh(LinUCB(DIM, dtype=torch.double), problem_of("own arms", seeded))
    state.check_estimates(0)
    state.width_sq[3, 5] = bad
    with pytest.raises(NumericalError, match=r"negative or NaN for 1 of 456 arms at round 8; torch.float64"):
        state.check_estimates(7)


def test_num_observations_has_the_dtype_of_the_estimates(seeded):
    state = _fresh(LinUCB(DIM), problem_of("own arms", seeded, torch.float32))
    state.t = 9
    assert state.num_observations.equal(torch.tensor(9.0))
