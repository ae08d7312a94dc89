"""Contract of all policies: copies, files and resets."""

import copy
import io

import pytest
import torch

from tests.policies.cases import play, state_bytes
from torch_softucb import SoftUCBPolicy, load_policy, save_policy


def _after(policy, case):
    """The decision after two more rounds: a copy must continue as the original does, too."""
    return play(policy, case.arms(), rounds=2, seed=9)


def test_a_state_dict_survives_a_file_that_may_hold_weights_only(case):
    policy, file = case.played(), io.BytesIO()
    torch.save(policy.state_dict(), file)
    file.seek(0)
    fresh = case.policy()
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert state_bytes(fresh) == state_bytes(policy)
    case.same(_after(fresh, case), _after(policy, case), 0)


def test_a_state_dict_brings_its_batch_shape(case):
    policy, fresh = case.played(), case.policy()
    if case.name not in ("soft_ucb_tensor", "soft_ucb_segment"):  # these have one beta per bandit
        fresh.reset(batch_shape=(7,))
    fresh.load_state_dict(policy.state_dict())
    assert fresh.batch_shape == case.batch
    case.same(fresh(case.arms()), policy(case.arms()), 0)


def test_a_wrong_state_dict_is_refused(case):
    policy = case.policy()
    state = case.played().state_dict()
    state["statistics"] = state["statistics"][..., :-1]
    with pytest.raises(ValueError, match="statistics"):
        policy.load_state_dict(state)
    with pytest.raises(ValueError, match=r"got without \['statistics'\]"):
        policy.load_state_dict({name: value for name, value in policy.state_dict().items() if name != "statistics"})


def test_a_deep_copy_goes_on_by_itself(case):
    policy = case.played()
    other = copy.deepcopy(policy)
    before = state_bytes(policy)
    case.same(other(case.arms()), policy(case.arms()), 0)
    case.learn(other, rounds=2)
    assert state_bytes(policy) == before
    case.learn(policy, rounds=2)
    assert state_bytes(policy) == state_bytes(other)


def test_saved_and_loaded_it_is_the_same_policy(case, tmp_path):
    policy = case.played()
    save_policy(tmp_path / "policy.safetensors", policy)
    loaded = load_policy(tmp_path / "policy.safetensors")
    assert type(loaded) is type(policy)
    assert loaded.settings == policy.settings
    assert state_bytes(loaded) == state_bytes(policy)
    case.same(_after(loaded, case), _after(policy, case), 0)


def test_to_changes_decisions_and_keeps_the_statistics(case):
    policy = case.played()
    other = torch.float32 if case.dtype == torch.float64 else torch.float64
    moved = copy.deepcopy(policy).to(other)
    assert moved.dtype == other
    assert moved.statistics.dtype == torch.float64
    assert moved.statistics.equal(policy.statistics)
    assert moved(case.arms().to(other)).index.dtype == other
    back = moved.to(case.dtype)
    assert back.dtype == case.dtype
    case.same(back(case.arms()), policy(case.arms()), 1e-5)  # parameters have been float32 in between


def test_reset_forgets(case):
    policy = case.policy()
    fresh = state_bytes(policy)
    case.learn(policy, rounds=2)
    assert state_bytes(policy) != fresh
    policy.reset(batch_shape=case.batch)
    assert state_bytes(policy) == fresh


def test_reset_changes_the_batch_shape(case):
    policy = case.played()
    policy.reset(batch_shape=(2, 1, 3))
    assert policy.batch_shape == (2, 1, 3)
    assert policy.state.num_observations.eq(0).all()
    policy.reset()
    assert policy.batch_shape == ()


def test_fresh_memory_is_what_a_reset_writes(case):
    policy = case.policy()
    assert policy.fresh_memory(case.batch).shape == policy.state.memory.shape
    assert policy.fresh_memory(case.batch).double().equal(policy.state.memory)


def test_refresh_changes_nothing_but_rounding(case):
    policy = case.played()
    V, b = policy.state.V.clone(), policy.state.b.clone()
    before = policy(case.arms())
    policy.refresh()
    assert policy.state.V.equal(V)
    assert policy.state.b.equal(b)
    case.same(policy(case.arms()), before, root=False)


def test_settings_reproduce_the_policy(case):
    policy = case.policy(ridge_alpha=0.3, refresh_every=7)
    beta = {}
    if isinstance(policy, SoftUCBPolicy):  # settings have all but beta
        beta["beta_init"] = policy.beta.detach() if policy.beta_module is None else policy.beta_module
    other = type(policy)(policy.dim, **policy.settings, **beta)
    assert other.settings == policy.settings
    other.reset(batch_shape=case.batch)
    case.same(_after(other, case), _after(policy, case), 0)


def test_repr_shows_sizes_and_settings(case):
    policy = case.policy()
    assert "dim=4" in repr(policy)
    assert f"batch_shape={case.batch}" in repr(policy)
    if not isinstance(policy, SoftUCBPolicy):  # shows beta, delta and coldness
        shown = set(policy.settings) - {"refresh_every", "prior", "device", "dtype"}
        assert all(f"{name}=" in repr(policy) for name in shown)
    assert ("prior=GaussianPrior(dim=4" in repr(policy)) == (policy.prior is not None)
