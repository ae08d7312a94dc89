"""Bayesian ridge regression by the evidence: the marginal Gaussian written out, the truth recovered, what is refused."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from tests.statistics_checks import FALSE_ALARM, every_seed, frequency_p, mean_bound
from torch_softucb import NumericalError
from torch_softucb import functional as F

D = torch.double


def _data(n, d, seeded, *, noise=0.5, scale=1.0, seed=0):
    g = seeded(seed)
    x = torch.randn(n, d, dtype=D, generator=g)
    theta = scale * torch.randn(d, dtype=D, generator=g)
    return x, theta, x @ theta + noise * torch.randn(n, dtype=D, generator=g)


def _sums(x, y):
    return x.mT @ x, (x.mT @ y.unsqueeze(-1)).squeeze(-1), y.square().sum(-1), torch.full(y.shape[:-1], y.shape[-1])


def _log_evidence(x, y, noise, prior):
    """log N(y; 0, noise^2 I + prior^2 X X^T), by the n x n matrix itself."""
    cov = noise**2 * torch.eye(len(y), dtype=D) + prior**2 * x @ x.T
    return -0.5 * (len(y) * math.log(2 * math.pi) + torch.logdet(cov) + y @ torch.linalg.solve(cov, y))


@pytest.mark.parametrize(("n", "d"), [(40, 3), (12, 5), (9, 6)])
def test_no_other_noise_and_prior_are_likelier(n, d, seeded):
    x, _, y = _data(n, d, seeded, seed=1)
    found = F.bayesian_ridge(*_sums(x, y))
    best = _log_evidence(x, y, found.noise_std, found.prior_std)
    torch.testing.assert_close(found.log_evidence, best, atol=1e-9, rtol=0)
    steps = torch.linspace(-3, 3, 61, dtype=D).exp().tolist()
    grid = [_log_evidence(x, y, found.noise_std * a, found.prior_std * b) for a in steps for b in steps]
    assert max(grid) <= best + 1e-9
    near = [_log_evidence(x, y, found.noise_std * a, found.prior_std * b) for a in (0.99, 1.01) for b in (0.99, 1.01)]
    assert max(near) < best


def test_posterior_is_the_gaussian_conditioned_on_the_data(seeded):
    x, _, y = _data(30, 4, seeded)
    found = F.bayesian_ridge(*_sums(x, y))
    precision = x.T @ x / found.noise_std**2 + torch.eye(4, dtype=D) / found.prior_std**2
    torch.testing.assert_close(found.root @ found.root.T, torch.linalg.inv(precision), atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(found.mean, torch.linalg.solve(precision, x.T @ y / found.noise_std**2))
    # MacKay's conditions: prior^2 = |mean|^2 / g and noise^2 = |y - X mean|^2 / (n - g), g the well-determined components
    g = 4 - torch.linalg.inv(precision).trace() / found.prior_std**2
    torch.testing.assert_close(found.prior_std**2, found.mean @ found.mean / g, rtol=1e-5, atol=0)
    torch.testing.assert_close(found.noise_std**2, (y - x @ found.mean).square().sum() / (30 - g), rtol=1e-5, atol=0)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_truth_is_recovered_whatever_the_units(scale, seeded):
    x, theta, y = _data(20_000, 10, seeded, noise=0.5 * scale, scale=scale)
    found = F.bayesian_ridge(*_sums(x, y))
    assert found.noise_std.item() == pytest.approx(0.5 * scale, rel=0.02)  # standard error 0.5%
    assert found.prior_std.item() == pytest.approx(theta.square().mean().sqrt().item(), rel=0.01)
    z = torch.linalg.solve(found.root, theta - found.mean)
    assert z.square().sum() < 30  # chi-square of 10: 99.9% below 29.6


@every_seed
def test_posteriors_cover_the_truth(seed, seeded):
    """|root^-1 (theta - mean)|^2 is chi-square of 3: ten equally likely bins, 400 small regressions, false alarms 1e-6.

    Noise and prior are found with standard errors of 1.8% and 2%. Power: covariances that are off by a factor of 2.
    """
    g = seeded(seed)
    theta = 2 * torch.randn(400, 3, dtype=D, generator=g)
    x = torch.randn(400, 8, 3, dtype=D, generator=g)
    y = (x @ theta.unsqueeze(-1)).squeeze(-1) + torch.randn(400, 8, dtype=D, generator=g)
    found = F.bayesian_ridge(*_sums(x, y))
    assert found.noise_std.item() == pytest.approx(1, abs=mean_bound(0.018))
    assert found.prior_std.item() == pytest.approx(2, abs=mean_bound(0.045))
    z = torch.linalg.solve(found.root, (theta - found.mean).unsqueeze(-1)).squeeze(-1)
    for factor, right in ((1.0, True), (2.0, False), (0.5, False)):
        bins = (10 * chi2.cdf((factor * z.square().sum(-1)).numpy(), 3)).astype(int).clip(max=9)
        assert (frequency_p(np.bincount(bins, minlength=10), [0.1] * 10) >= FALSE_ALARM) == right


def test_a_batch_shares_noise_and_prior(seeded):
    x, _, y = _data(60, 3, seeded)
    sums = _sums(x.view(2, 30, 3), y.view(2, 30))
    found = F.bayesian_ridge(*sums)
    blocks = torch.block_diag(x[:30], x[30:])  # as one regression with two thetas
    whole = F.bayesian_ridge(*_sums(blocks, y))
    torch.testing.assert_close(found.mean.flatten(), whole.mean, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found.noise_std, whole.noise_std, rtol=1e-6, atol=0)
    torch.testing.assert_close(found.log_evidence, whole.log_evidence, rtol=1e-9, atol=0)


def test_directions_without_data_keep_the_prior(seeded):
    x, _, y = _data(200, 3, seeded)
    x[:, 2] = 0
    found = F.bayesian_ridge(*_sums(x, y))
    assert found.mean[2] == 0
    torch.testing.assert_close((found.root @ found.root.T)[2, 2].sqrt(), found.prior_std)


def test_bad_sums_are_named(seeded):
    x, _, y = _data(50, 3, seeded)
    gram, moment, energy, count = _sums(x, y)
    for sums, match in [
        ((gram[:2], moment, energy, count), r"gram must have shape \(3, 3\), got \(2, 3\)"),
        ((gram, moment, energy.expand(2), count), r"energy must have shape \(\), got \(2,\)"),
        ((gram, moment / 0, energy, count), "moment must be finite"),
        ((gram, moment, energy, torch.tensor(1)), "count must be at least 2 observations"),
        ((-gram, moment, energy, count), "gram must be X"),
        ((gram, 0 * moment, 0 * energy, count), "energy must be above 0"),
    ]:
        with pytest.raises(ValueError, match=match):
            F.bayesian_ridge(*sums)
    with pytest.raises(TypeError, match="gram must be a floating point tensor"):
        F.bayesian_ridge(gram.long(), moment, energy, count)


def test_no_effect_and_no_noise_are_named(seeded):
    x, theta, _ = _data(5000, 3, seeded)
    sign = torch.ones(5000, dtype=D)
    sign[::2] = -1
    paired = x.view(2500, 2, 3)[:, :1].expand(-1, 2, -1).reshape(5000, 3)  # each x twice, with rewards that cancel
    with pytest.raises(ValueError, match="the rewards show no dependence on x"):
        F.bayesian_ridge(*_sums(paired, sign))
    with pytest.raises(NumericalError, match="the rewards follow x without noise"):
        F.bayesian_ridge(*_sums(x, x @ theta))


def test_features_that_are_all_0_are_refused():
    zero = torch.zeros(2, 2, dtype=D)
    with pytest.raises(ValueError, match="bayesian_ridge: gram"):
        F.bayesian_ridge(zero, zero[0], torch.tensor(4.0, dtype=D), torch.tensor(4.0, dtype=D))
