"""Laws of the ridge statistics, the evidence and the optimal design."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import NUMBERS
from torch_softucb import functional as F

DIMS = st.integers(1, 6)
ALPHAS = st.floats(0.05, 10)


def _history(numbers, dim, alpha, rounds=8):
    x, y = numbers.normal(rounds, dim), numbers.normal(rounds)
    return x, y, alpha * torch.eye(dim, dtype=torch.double) + x.mT @ x


@given(NUMBERS, DIMS, ALPHAS)
def test_the_root_is_a_root_of_the_inverse(numbers, dim, alpha):
    _, _, V = _history(numbers, dim, alpha)
    root = F.ridge_root(V)
    torch.testing.assert_close(root @ root.mT @ V, torch.eye(dim, dtype=torch.double), atol=1e-9, rtol=0)
    assert F.ridge_cache_error(V, root) < 1e-11


@given(NUMBERS, DIMS, ALPHAS)
def test_updates_in_any_order_are_one_fresh_root(numbers, dim, alpha):
    x, _, V = _history(numbers, dim, alpha)
    root = torch.eye(dim, dtype=torch.double) / math.sqrt(alpha)
    for t in numbers.permutation(len(x)):
        root = F.ridge_root_update(root, x[t])
    torch.testing.assert_close(root @ root.mT, torch.linalg.inv(V), atol=1e-9, rtol=1e-8)


@given(NUMBERS, DIMS, ALPHAS, st.floats(0.1, 10))
def test_scaled_features_give_scaled_estimates(numbers, dim, alpha, scale):
    """x -> c x with alpha -> c^2 alpha leaves mu_hat and the width as they are."""
    x, y, V = _history(numbers, dim, alpha)
    arms = numbers.normal(5, dim)
    mu_hat, width = F.ridge_estimate(arms, F.ridge_root(V), x.mT @ y)
    other = F.ridge_estimate(scale * arms, F.ridge_root(scale**2 * V), scale * x.mT @ y)
    torch.testing.assert_close(other[0], mu_hat, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(other[1], width, atol=1e-9, rtol=1e-9)


@given(NUMBERS, DIMS, ALPHAS)
def test_rotated_features_give_the_same_estimates(numbers, dim, alpha):
    x, y, V = _history(numbers, dim, alpha)
    arms, turn = numbers.normal(5, dim), torch.linalg.qr(numbers.normal(dim, dim)).Q
    mu_hat, width = F.ridge_estimate(arms, F.ridge_root(V), x.mT @ y)
    other = F.ridge_estimate(arms @ turn, F.ridge_root(turn.mT @ V @ turn), turn.mT @ (x.mT @ y))
    torch.testing.assert_close(other[0], mu_hat, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(other[1], width, atol=1e-9, rtol=1e-9)


@given(NUMBERS, DIMS, ALPHAS)
def test_the_residual_sum_is_the_smallest_penalised_sum_of_squares(numbers, dim, alpha):
    x, y, V = _history(numbers, dim, alpha)
    root, b = F.ridge_root(V), x.mT @ y
    theta = root @ (root.mT @ b)

    def cost(theta):
        return ((y - x @ theta).square().sum() + alpha * theta.square().sum()).item()

    found = F.residual_sum(y.square().sum(), root, b).item()
    assert found == pytest.approx(cost(theta), abs=1e-9)
    assert all(found <= cost(theta + 0.1 * numbers.normal(dim)) + 1e-9 for _ in range(5))


@given(NUMBERS, DIMS, ALPHAS)
def test_blocks_are_the_whole(numbers, dim, alpha):
    x, y, V = _history(numbers, dim, alpha)
    arms, root, b = numbers.normal(3, 4, dim), F.ridge_root(V), x.mT @ y
    for one, other in zip(F.ridge_estimate_blocks(arms, root, b), F.ridge_estimate(arms, root, b), strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def _theta(numbers, dim):
    """Far enough from 0 for the rewards to depend on x."""
    theta = numbers.normal(dim)
    return theta + theta.sign()


@given(NUMBERS, st.integers(1, 4), st.floats(0.1, 0.7))
def test_no_other_noise_and_prior_have_a_higher_evidence(numbers, dim, noise):
    x = numbers.normal(60, dim)
    y = x @ _theta(numbers, dim) + noise * numbers.normal(60)
    found = F.bayesian_ridge(x.mT @ x, x.mT @ y, y @ y, torch.tensor(60))

    def log_evidence(noise_std, prior_std):
        cov = noise_std**2 * torch.eye(60, dtype=torch.double) + prior_std**2 * x @ x.mT
        return torch.distributions.MultivariateNormal(torch.zeros(60, dtype=torch.double), cov).log_prob(y).item()

    best = log_evidence(found.noise_std.item(), found.prior_std.item())
    assert found.log_evidence.item() == pytest.approx(best, abs=1e-6)
    for a, b in ((1.1, 1.0), (0.9, 1.0), (1.0, 1.1), (1.0, 0.9)):
        assert log_evidence(a * found.noise_std.item(), b * found.prior_std.item()) <= best + 1e-6


@given(NUMBERS, st.integers(1, 3), st.floats(0.01, 100))
def test_the_evidences_estimates_scale_with_the_rewards(numbers, dim, scale):
    x = numbers.normal(40, dim)
    y = x @ _theta(numbers, dim) + 0.5 * numbers.normal(40)
    one = F.bayesian_ridge(x.mT @ x, x.mT @ y, y @ y, torch.tensor(40))
    other = F.bayesian_ridge(x.mT @ x, scale * x.mT @ y, scale**2 * (y @ y), torch.tensor(40))
    torch.testing.assert_close(other.mean, scale * one.mean, rtol=1e-6, atol=0)
    torch.testing.assert_close(other.noise_std, scale * one.noise_std, rtol=1e-6, atol=0)


@given(NUMBERS, st.integers(1, 3), st.integers(1, 8))
def test_an_optimal_design_reaches_the_dimension_of_the_span(numbers, dim, arms):
    x = numbers.normal(arms, dim)
    mask = numbers.mask(arms)
    weights, most = F.g_optimal_design(x, mask=mask)
    rank = int(torch.linalg.matrix_rank(x[mask]))
    assert weights.sum().item() == pytest.approx(1, abs=1e-9)
    assert (weights[~mask] == 0).all()
    assert (weights >= -1e-12).all()
    assert rank * (1 - 1e-6) <= most.item() <= rank * 1.02
