"""Contract of all policies: what an update writes, and that it writes all or nothing."""

import math
from itertools import product

import pytest
import torch

from tests.policies.cases import state_bytes


def test_statistics_are_the_ridge_sums(case):
    case.skip_estimated_ridge()
    policy = case.policy(ridge_alpha=0.3)
    V, b = 0.3 * torch.eye(4, dtype=torch.double), torch.zeros(4, dtype=torch.double)
    for t in range(3):
        x, reward = case.observed(seed=20 + t)
        policy.update(x, reward, **case.decided(policy))
        x, reward = x.double(), reward.double()
        V, b = V + x.unsqueeze(-1) * x.unsqueeze(-2), b + x * reward.unsqueeze(-1)
    torch.testing.assert_close(policy.state.V, V, atol=1e-12, rtol=0)
    torch.testing.assert_close(policy.state.b, b, atol=1e-12, rtol=0)
    assert policy.state.num_observations.eq(3).all()


def test_statistics_are_float64_and_the_cache_is_accurate(case):
    policy = case.played(rounds=6, refresh_every=4)
    assert policy.statistics.dtype == torch.float64
    assert policy.cache_error().shape == case.batch
    assert (policy.cache_error() < 1e-12).all()


def test_an_update_leaves_its_inputs_alone(case):
    policy = case.played()
    x, reward = case.observed()
    given = case.decided(policy)
    kept = x.clone(), reward.clone(), given["arm"].clone()
    policy.update(x, reward, **given)
    assert x.equal(kept[0])
    assert reward.equal(kept[1])
    assert given["arm"].equal(kept[2])


def test_strides_of_observations_do_not_matter(case):
    policy, other, third = (case.policy() for _ in range(3))
    x, reward = case.observed()
    spread = torch.stack((x, -x), dim=-1)[..., 0]
    apart = torch.stack((reward, -reward), dim=-1)[..., 0]
    assert spread.stride(-1) == 2
    policy.update(x, reward, **case.decided(policy))
    other.update(spread, apart, **case.decided(other))
    torch.testing.assert_close(other.statistics, policy.statistics, atol=1e-12, rtol=0)
    same = case.randn(1).expand(*case.batch, 4), case.randn(1, seed=3).expand(case.batch or (1,)).view(case.batch)
    policy.update(*same, **case.decided(policy))
    other.update(*same, **case.decided(policy))
    third.statistics.copy_(other.statistics)
    third.update(*(value.clone() for value in same), **case.decided(policy))
    other.update(*same, **case.decided(policy))
    torch.testing.assert_close(other.statistics, third.statistics, atol=1e-12, rtol=0)


def test_many_observations_at_once_equal_single_ones_in_any_order(case):
    case.skip_estimated_ridge()
    case.skip_one_per_call()
    many, single = case.policy(ridge_alpha=2.5), case.policy(ridge_alpha=2.5)
    x, reward = case.observed(7)
    many.update(x, reward)
    for t in torch.randperm(7, generator=torch.Generator().manual_seed(1)).tolist():
        single.update(x[..., t, :], reward[..., t])
    torch.testing.assert_close(many.state.V, single.state.V, atol=1e-11, rtol=0)
    torch.testing.assert_close(many.state.b, single.state.b, atol=1e-11, rtol=0)
    assert many.state.num_observations.eq(7).all()
    case.same(many(case.arms()), single(case.arms()), root=False)


def test_no_observations_change_nothing(case):
    """The cache may be rebuilt; what it is the root of stays."""
    case.skip_one_per_call()
    policy = case.played()
    before, decision = policy.statistics.clone(), policy(case.arms())
    policy.update(*case.observed(0))
    if len(case.batch) == 1:
        policy.update(case.randn(0, 4), case.randn(0), bandit=torch.zeros(0, dtype=torch.int64))
        policy.update(case.randn(2, 0, 4), case.randn(2, 0), bandit=torch.tensor([1, 1]))
    kept = [i for i in range(policy.layout.size) if i not in range(*policy.layout.root.indices(policy.layout.size))]
    assert policy.statistics[..., kept].equal(before[..., kept])
    case.same(policy(case.arms()), decision, root=False)


def test_numbers_that_are_not_finite_are_refused_whole(case):
    """In the last place of the last bandit, so that all others would have been written before."""
    policy = case.played()
    given = case.decided(policy)
    before = state_bytes(policy)
    for which, value in product(("x", "reward"), (math.nan, math.inf, -math.inf)):
        x, reward = (t.clone() for t in case.observed())
        (x if which == "x" else reward).reshape(-1)[-1] = value
        with pytest.raises(ValueError, match=f"^{type(policy).__name__}.update: {which} must be finite"):
            policy.update(x, reward, **given)
        assert state_bytes(policy) == before


def test_products_that_overflow_are_refused_whole(case):
    if case.dtype == torch.float32:
        pytest.skip("float32 numbers have products that float64 holds")
    policy = case.played()
    given = case.decided(policy)
    before = state_bytes(policy)
    x, reward = case.observed()
    x.reshape(-1)[-1] = 1e200
    with pytest.raises((ArithmeticError, ValueError), match=r"overflow|positive definite|float64"):
        policy.update(x, reward, **given)
    assert state_bytes(policy) == before


def test_discount_forgets_towards_the_ridge(case):
    case.skip_estimated_ridge()
    policy = case.played(ridge_alpha=0.5)
    old = policy.state
    V, b = old.V.clone(), old.b.clone()
    x, reward = case.observed()
    policy.update(x, reward, discount=0.9, **case.decided(policy))
    x, reward = x.double(), reward.double()
    want = 0.9 * V + 0.1 * 0.5 * torch.eye(4, dtype=torch.double) + x.unsqueeze(-1) * x.unsqueeze(-2)
    torch.testing.assert_close(policy.state.V, want, atol=1e-12, rtol=0)
    torch.testing.assert_close(policy.state.b, 0.9 * b + x * reward.unsqueeze(-1), atol=1e-12, rtol=0)
    assert (policy.cache_error() < 1e-12).all()


def test_gradients_do_not_leak_into_the_statistics(case):
    policy = case.policy()
    x, reward = case.observed()
    policy.update(x.requires_grad_(), reward.requires_grad_(), **case.decided(policy))
    assert not policy.statistics.requires_grad
    assert policy.statistics.grad_fn is None
    assert x.grad is None


def test_an_update_in_inference_mode_is_an_ordinary_one(case):
    policy, other = case.policy(), case.policy()
    case.learn(other)
    with torch.inference_mode():
        case.learn(policy)
    assert not policy.statistics.is_inference()
    torch.testing.assert_close(policy.statistics, other.statistics, atol=1e-12, rtol=0)
    case.learn(policy)  # and may be followed by one outside


def test_updates_do_not_touch_parameters(case):
    policy = case.policy()
    before = {name: value.detach().clone() for name, value in policy.named_parameters()}
    case.learn(policy, rounds=2)
    for name, value in policy.named_parameters():
        assert value.equal(before[name])
        assert value.grad is None
