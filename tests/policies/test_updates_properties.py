"""Laws of updates and decisions of policies, against loops over plain lists."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests import reference
from tests.policies.cases import POLICIES, SAMPLED, build
from tests.strategies import BETAS, DELTAS, NUMBERS
from torch_softucb import LinTS, SoftUCBPolicy

D = torch.double
NAMES = st.sampled_from(sorted(set(POLICIES) - {"soft_ucb_lagged"}))  # several observations per call
CHUNKS = st.lists(st.integers(1, 7), min_size=1, max_size=4)


@given(NAMES, NUMBERS, CHUNKS)
def test_any_grouping_and_order_of_rewards_gives_the_same_statistics(name, numbers, sizes):
    """Calls of several sizes, with repeated ids, in another order: the same sums."""
    policy, other = (build(name, 3, batch=(4,), dtype=D) for _ in range(2))
    n = sum(sizes)
    ids, x, y = numbers.integers(4, n), numbers.normal(n, 3), numbers.normal(n)
    for at in torch.split(numbers.permutation(n), sizes):
        policy.update(x[at], y[at], bandit=ids[at])
    for i in range(n):
        other.update(x[i : i + 1], y[i : i + 1], bandit=ids[i : i + 1])
    torch.testing.assert_close(policy.state.V, other.state.V, atol=1e-11, rtol=0)
    torch.testing.assert_close(policy.state.b, other.state.b, atol=1e-11, rtol=0)
    torch.testing.assert_close(policy.state.memory, other.state.memory, atol=1e-11, rtol=0)
    assert policy.state.num_observations.equal(other.state.num_observations)


@given(NUMBERS, st.lists(st.floats(0.5, 1.0), min_size=1, max_size=8), st.floats(0.1, 5))
def test_forgetting_is_the_recursion_and_keeps_the_ridge(numbers, discounts, alpha):
    policy = SoftUCBPolicy(3, ridge_alpha=alpha, dtype=D)
    V, b, eye = alpha * np.eye(3), np.zeros(3), np.eye(3)
    for rho in discounts:
        x, y = numbers.normal(3), numbers.normal()
        policy.update(x, y, discount=rho)
        V = rho * V + (1 - rho) * alpha * eye + np.outer(x, x)
        b = rho * b + x.numpy() * y.item()
    np.testing.assert_allclose(policy.state.V, V, atol=1e-12)
    np.testing.assert_allclose(policy.state.b, b, atol=1e-12)
    assert np.linalg.eigvalsh(policy.state.V).min() >= alpha * (1 - 1e-9)


@given(NUMBERS, st.sampled_from(["current", "smooth", "lagged"]), BETAS, DELTAS, st.integers(1, 6), st.integers(1, 4))
def test_soft_ucb_plays_as_algorithm_1(numbers, mode, beta, delta, k, dim):
    policy = SoftUCBPolicy(dim, beta_init=beta, delta=delta, coldness=mode, dtype=D)
    mask, arms = numbers.mask(k), numbers.normal(k, dim)
    slow = reference.Bandit(arms.numpy(), beta=beta, delta=delta, alpha=1.0, mode=mode, allowed=mask.tolist())
    for _ in range(5):
        decision = policy(arms, mask=mask)
        slow.step()
        low = min((abs(s) for s in slow.S), default=1.0)
        if 0 < low < 1e-9:  # rounding may put an arm on either side of L
            return
        assert decision.probs.tolist() == pytest.approx(slow.probs, abs=1e-8)
        arm, reward = int(decision.sample(numbers.generator)), numbers.normal().item()
        policy.update(arms[arm], torch.tensor(reward, dtype=D), decision=decision)
        slow.pull(arm, reward)


@given(NUMBERS, st.floats(0.01, 3), st.integers(1, 4))
def test_a_thompson_draw_is_linear_in_its_normals(numbers, scale, dim):
    """index = mu_hat + scale X root z with root root^T = V^-1: mean, scale and covariance of the draw."""
    policy = LinTS(dim, scale=scale, dtype=D)
    arms = numbers.normal(5, dim)
    policy.update(numbers.normal(6, dim), numbers.normal(6))
    decision = policy(arms)
    zero = torch.zeros(dim, dtype=D)
    torch.testing.assert_close(decision.draw(zero), decision.mu_hat, atol=1e-12, rtol=0)
    steps = torch.stack([decision.draw(e) - decision.mu_hat for e in torch.eye(dim, dtype=D)])  # (d, K)
    want = scale**2 * arms @ torch.linalg.inv(policy.state.V) @ arms.mT
    torch.testing.assert_close(steps.mT @ steps, want, atol=1e-9, rtol=0)


@given(st.sampled_from(sorted(set(POLICIES) - SAMPLED)), NUMBERS, st.floats(0.1, 10))
def test_a_rotation_of_the_features_changes_no_decision(name, numbers, scale):
    policy, other = (build(name, 3, dtype=D) for _ in range(2))
    turn, arms = torch.linalg.qr(numbers.normal(3, 3)).Q, numbers.normal(5, 3)
    for _ in range(3):
        x, y = numbers.normal(3), scale * numbers.normal()
        policy.update(x, y, decision=policy(arms))
        other.update(x @ turn, y, decision=other(arms @ turn))
    a, b = policy(arms), other(arms @ turn)
    torch.testing.assert_close(a.index, b.index, atol=1e-9, rtol=1e-9)
