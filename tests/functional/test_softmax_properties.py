"""Laws of the index, the coldness and the softmax, over random arms, masks and scales."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests import reference
from tests.strategies import BETAS, DELTAS, NUMBERS, SCALES
from torch_softucb import functional as F

COLDNESS = {"current": F.coldness, "smooth": F.smooth_coldness}
MODES = st.sampled_from(sorted(COLDNESS))
ARMS = st.integers(1, 12)


def _arms(numbers, k, scale=1.0):
    return scale * numbers.normal(k), scale * numbers.uniform(k), numbers.mask(k)


def _double(value):
    return torch.tensor(value, dtype=torch.double)


@given(NUMBERS, ARMS, BETAS, SCALES)
def test_the_index_is_ucb_minus_the_largest_lcb(numbers, k, beta, scale):
    mu_hat, width, mask = _arms(numbers, k, scale)
    S = F.soft_ucb_index(mu_hat, width, _double(beta), mask=mask)
    lower = max(m - beta * w for m, w, ok in zip(mu_hat.tolist(), width.tolist(), mask.tolist(), strict=True) if ok)
    want = [m + beta * w - lower for m, w in zip(mu_hat.tolist(), width.tolist(), strict=True)]
    assert S.tolist() == pytest.approx(want, abs=1e-12 * scale)
    assert S.tolist() == pytest.approx(
        reference.index(mu_hat.tolist(), width.tolist(), beta, mask.tolist()), abs=1e-11 * scale
    )


@given(NUMBERS, ARMS, BETAS, st.floats(-50, 50))
def test_the_index_does_not_depend_on_the_level_of_the_rewards(numbers, k, beta, level):
    mu_hat, width, mask = _arms(numbers, k)
    S = F.soft_ucb_index(mu_hat, width, _double(beta), mask=mask)
    torch.testing.assert_close(F.soft_ucb_index(mu_hat + level, width, _double(beta), mask=mask), S, atol=1e-12, rtol=0)


@given(NUMBERS, ARMS, BETAS)
def test_the_best_lower_bound_and_the_largest_index_are_not_suboptimal(numbers, k, beta):
    """S is at least 0 at i_star, where it is 2 beta width; so L never holds all arms."""
    mu_hat, width, mask = _arms(numbers, k)
    S = F.soft_ucb_index(mu_hat, width, _double(beta), mask=mask)
    star = (mu_hat - beta * width).masked_fill(~mask, -math.inf).argmax()
    assert S[star].item() == pytest.approx(2 * beta * width[star].item(), abs=1e-12)
    assert F.num_suboptimal(S, mask=mask) < mask.sum()


@given(NUMBERS, ARMS, DELTAS, MODES, st.sampled_from([1e-6, 0.1, 7.0, 1e6]))
def test_probabilities_do_not_depend_on_the_scale_of_the_index(numbers, k, delta, mode, scale):
    """gamma scales as 1 / S, so that gamma S stays."""
    S, mask = numbers.normal(k) + 0.3, numbers.mask(k)
    gamma, scaled = COLDNESS[mode](S, delta, mask=mask), COLDNESS[mode](scale * S, delta, mask=mask)
    assert scaled.item() == pytest.approx(gamma.item() / scale, rel=1e-12)
    p, q = F.arm_probabilities(S, gamma, mask=mask), F.arm_probabilities(scale * S, scaled, mask=mask)
    torch.testing.assert_close(p, q, atol=1e-12, rtol=0)


@given(NUMBERS, ARMS, DELTAS, MODES)
def test_coldness_and_probabilities_are_those_of_the_reference(numbers, k, delta, mode):
    S, mask = numbers.normal(k) + 0.3, numbers.mask(k)
    slow = reference.coldness if mode == "current" else reference.smooth_coldness
    gamma = COLDNESS[mode](S, delta, mask=mask)
    want = slow(S.tolist(), delta, mask.tolist())
    assert gamma.item() == pytest.approx(want, rel=1e-12)
    probs = F.arm_probabilities(S, gamma, mask=mask).tolist()
    assert probs == pytest.approx(reference.probabilities(S.tolist(), want, mask.tolist()), abs=1e-12)


@given(NUMBERS, ARMS, DELTAS, DELTAS, MODES)
def test_the_coldness_grows_with_delta(numbers, k, one, other, mode):
    S, mask = numbers.normal(k) + 0.3, numbers.mask(k)
    low, high = sorted((one, other))
    assert COLDNESS[mode](S, low, mask=mask) <= COLDNESS[mode](S, high, mask=mask) + 1e-12


@given(NUMBERS, ARMS, DELTAS)
def test_the_smooth_coldness_is_at_least_the_exact_one(numbers, k, delta):
    S, mask = numbers.normal(k) + 0.3, numbers.mask(k)
    assert F.smooth_coldness(S, delta, mask=mask) >= F.coldness(S, delta, mask=mask) - 1e-12


@given(NUMBERS, ARMS, st.floats(0, 40), st.floats(-1e3, 1e3))
def test_the_softmax_does_not_see_a_shift(numbers, k, gamma, shift):
    S, mask = numbers.normal(k), numbers.mask(k)
    p = F.arm_probabilities(S, _double(gamma), mask=mask)
    q = F.arm_probabilities(S + shift, _double(gamma), mask=mask)
    torch.testing.assert_close(p, q, atol=1e-10, rtol=0)  # S + shift loses 1e-13 in S, times gamma
    assert p.sum().item() == pytest.approx(1, abs=1e-12)


@given(NUMBERS, ARMS, st.floats(0, 40))
def test_probabilities_have_the_order_of_the_index(numbers, k, gamma):
    S, mask = numbers.normal(k), numbers.mask(k)
    p = F.arm_probabilities(S, _double(gamma), mask=mask)[mask]
    assert (p[S[mask].argsort()].diff() >= 0).all()


@given(NUMBERS, ARMS, BETAS, DELTAS, MODES)
def test_permuted_arms_have_permuted_probabilities(numbers, k, beta, delta, mode):
    mu_hat, width, mask = _arms(numbers, k)
    order = numbers.permutation(k)

    def probs(mu_hat, width, mask):
        S = F.soft_ucb_index(mu_hat, width, _double(beta), mask=mask)
        return F.arm_probabilities(S, COLDNESS[mode](S, delta, mask=mask), mask=mask)

    permuted = probs(mu_hat[order], width[order], mask[order])
    torch.testing.assert_close(permuted, probs(mu_hat, width, mask)[order], atol=1e-9, rtol=0)


@given(NUMBERS, ARMS)
def test_greedy_probabilities_are_shared_by_the_best_arms(numbers, k):
    S, mask = numbers.integers(3, k).double(), numbers.mask(k)  # many ties
    p = F.greedy_probabilities(S, mask=mask)
    best = [i for i in range(k) if mask[i] and S[i] == S[mask].max()]
    assert p.tolist() == pytest.approx([1 / len(best) if i in best else 0.0 for i in range(k)])


@given(NUMBERS, ARMS, st.floats(0, 20), BETAS)
def test_the_reward_gradient_is_equation_13(numbers, k, gamma, beta):
    mu_hat, width, mask = _arms(numbers, k)
    S = F.soft_ucb_index(mu_hat, width, _double(beta), mask=mask)
    probs = F.arm_probabilities(S, _double(gamma), mask=mask)
    value, slope = F.reward_and_gradient(probs, mu_hat, width, _double(gamma))
    want = reference.reward_gradient(*(v.tolist() for v in (S, mu_hat, width)), gamma, beta, mask.tolist())
    assert slope.item() == pytest.approx(want, abs=1e-9)
    assert value.item() == pytest.approx((probs * mu_hat).sum().item(), abs=1e-12)
    raw = _double(beta).requires_grad_()
    F.expected_reward(raw, mu_hat, width, _double(gamma), mask=mask).backward()
    assert raw.grad.item() == pytest.approx(want, abs=1e-9)


@given(NUMBERS, ARMS)
def test_regret_lies_between_zero_and_the_largest_gap(numbers, k):
    means, mask = numbers.normal(k), numbers.mask(k)
    probs = numbers.uniform(k) * mask
    probs = probs / probs.sum()
    regret = F.expected_regret(probs, means, mask=mask).item()
    gaps = [means[mask].max().item() - m for m in means[mask].tolist()]
    assert -1e-12 <= regret <= max(gaps) + 1e-12
    assert regret == pytest.approx(sum(p * g for p, g in zip(probs[mask].tolist(), gaps, strict=True)), abs=1e-12)


@given(NUMBERS, ARMS, BETAS, BETAS)
def test_coverage_grows_with_beta(numbers, k, one, other):
    mu_hat, width, mask = _arms(numbers, k)
    means = numbers.normal(k)
    low, high = (F.coverage(means, mu_hat, width, _double(b), mask=mask) for b in sorted((one, other)))
    assert 0 <= low <= high <= 1
