"""Laws of what beta and eta are learned with: bounds, objectives, the dual variable, control variates."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import NUMBERS
from torch_softucb import functional as F

SHARES = st.floats(0.01, 0.99)


def _double(value):
    return torch.tensor(value, dtype=torch.double)


@given(st.floats(-30, 30), st.floats(0, 1), SHARES)
def test_log_eta_stays_bounded_and_moves_towards_the_target(log_eta, coverage, target):
    error = F.coverage_error(_double(coverage), target)
    after = F.dual_ascent(_double(log_eta), error).item()
    assert -30 <= after <= 30
    if 0.001 < coverage < 0.999:
        assert (after - log_eta) * (target - coverage) >= 0
        assert math.copysign(1, error.item() or 1) == math.copysign(1, target - coverage or 1) or abs(error) < 1e-9


@given(NUMBERS, st.floats(1e-12, 1e12), st.floats(1e-6, 1e6))
def test_the_normalised_slope_is_bounded_and_has_no_unit(numbers, eta, unit):
    reward, penalty = numbers.normal(5), numbers.uniform(5) * 30
    slope = F.normalised_slope(reward, penalty, _double(eta))
    assert (slope.abs() <= 1 + 1e-12).all()
    torch.testing.assert_close(F.normalised_slope(unit * reward, unit * penalty, _double(eta)), slope, atol=1e-9, rtol=0)


@given(NUMBERS, st.integers(1, 9))
def test_residuals_may_come_at_once_or_one_by_one(numbers, n):
    mu_hat, width, reward = numbers.normal(3, n), numbers.uniform(3, n) + 0.1, numbers.normal(3, n)
    start = F.no_residuals(numbers.uniform(3) + 0.1, 0.9)
    at_once, one_by_one = F.add_residuals(start, mu_hat, width, reward), start
    for t in numbers.permutation(n).tolist():
        one_by_one = F.add_residuals(one_by_one, mu_hat[:, t], width[:, t], reward[:, t])
    for a, b in zip(at_once, one_by_one, strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-10)


@given(st.floats(0.05, 5), SHARES)
def test_without_rewards_beta_has_the_target_coverage(beta, target):
    kappa = F.error_scale(F.no_residuals(_double(beta), target))
    assert F.estimated_coverage(_double(beta), kappa).item() == pytest.approx(target, abs=1e-6)


@given(NUMBERS, st.integers(1, 20), st.floats(0, 2))
def test_the_online_gradient_ends_as_the_offline_mean(numbers, horizon, eta):
    """Eq. 15 at t = T: the past rounds as they were, and no round left to repeat."""
    gradient, widths = numbers.normal(horizon, 4), numbers.uniform(4)
    past = torch.zeros(4, dtype=torch.double)
    for t in range(1, horizon + 1):
        step = F.online_gradient(gradient[t - 1], past, widths, t=t, horizon=horizon, eta=eta)
        past = step.past
    torch.testing.assert_close(step.gradient, gradient.mean(0) + eta * widths / horizon, atol=1e-12, rtol=0)


@given(NUMBERS, st.integers(1, 20))
def test_rewards_to_go_add_up(numbers, rounds):
    reward = numbers.normal(rounds, 3)
    to_go = F.reward_to_go(reward)
    torch.testing.assert_close(to_go[0] + reward[0], reward.sum(0), atol=1e-12, rtol=0)
    assert to_go[-1].abs().max() < 1e-12
    torch.testing.assert_close(to_go[:-1] - to_go[1:], reward[1:], atol=1e-12, rtol=0)


@given(NUMBERS, st.integers(2, 6), st.integers(1, 4))
def test_leaving_one_out_subtracts_the_mean_of_the_others(numbers, replicates, problems):
    values = numbers.normal(2, replicates, problems)
    got = F.leave_one_out(values)
    for r in range(replicates):
        others = torch.cat((values[:, :r], values[:, r + 1 :]), dim=1).mean(1)
        torch.testing.assert_close(got[:, r], values[:, r] - others, atol=1e-12, rtol=0)
    torch.testing.assert_close(got.sum(1), torch.zeros(2, problems, dtype=torch.double), atol=1e-12, rtol=0)


@given(NUMBERS, st.integers(1, 8))
def test_the_score_has_mean_zero_and_the_present_term_is_its_gradient(numbers, k):
    """sum_i p_i score_i = 0, and sum_i p_i mu_i score_i is the derivative of the expected reward."""
    probs, slope, means = numbers.probabilities(k), numbers.normal(k), numbers.normal(k)
    scores = [F.trajectory_score(probs, slope, means, torch.tensor(i)) for i in range(k)]
    assert sum(p * s.score.item() for p, s in zip(probs.tolist(), scores, strict=True)) == pytest.approx(0, abs=1e-12)
    want = sum(p * m * s.score.item() for p, m, s in zip(probs.tolist(), means.tolist(), scores, strict=True))
    assert scores[0].present.item() == pytest.approx(want, abs=1e-12)


@given(NUMBERS, st.floats(-3, 3), st.floats(0, 3))
def test_a_step_against_the_gradient_never_pushes_further_outside(numbers, low, size):
    raw, grad = 3 * numbers.normal(20), numbers.normal(20)
    for constrain, bottom, top in (
        (F.nonnegative, 0.0, math.inf),
        (lambda r: F.bounded(r, low, low + size), low, low + size),
    ):
        leaf = raw.clone().requires_grad_()
        value = constrain(leaf)
        assert ((value >= bottom - 1e-12) & (value <= top + 1e-12)).all()
        value.backward(grad)
        inside = (raw > bottom) & (raw < top)
        assert leaf.grad[inside].equal(grad[inside])
        assert (leaf.grad[raw < bottom] <= 0).all()
        assert (leaf.grad[raw > top] >= 0).all()


@given(st.integers(1, 30), st.floats(1, 1e5), st.floats(0, 3), st.floats(0.001, 0.5), st.floats(0.1, 10))
def test_the_theoretical_beta_grows_with_time_noise_and_certainty(dim, horizon, noise, fail, alpha):
    def beta(horizon=horizon, noise=noise, fail=fail):
        return F.beta_upper_bound(dim=dim, horizon=horizon, subgaussian_r=noise, fail_prob=fail, ridge_alpha=alpha)

    assert beta() >= math.sqrt(alpha) - 1e-12
    assert beta(horizon=2 * horizon) >= beta()
    assert beta(noise=noise + 1) > beta()
    assert beta(fail=fail / 2) >= beta()
    rounds = torch.tensor([horizon, 2 * horizon], dtype=torch.double)
    assert beta(horizon=rounds).tolist() == pytest.approx([beta(), beta(horizon=2 * horizon)])
