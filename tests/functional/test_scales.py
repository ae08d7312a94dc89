"""Scales of the linear model: the marginal Gaussian written out, units, the truth recovered, degenerate data."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_softucb.functional.scales import NOISE_FLOOR, RegressionSums, evidence_scales

D = torch.double


def _data(batch, n, d, noise, seed=0, offset=3.0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(*batch, n, d, dtype=D, generator=g)
    theta = torch.randn(*batch, d, 1, dtype=D, generator=g)
    return x, offset + (x @ theta).squeeze(-1) + noise * torch.randn(*batch, n, dtype=D, generator=g)


def _sums(x, y):
    count = torch.full(y.shape[:-1], float(y.shape[-1]), dtype=D)
    return RegressionSums(count, x.sum(-2), y.sum(-1), x.mT @ x, (x.mT @ y.unsqueeze(-1)).squeeze(-1), y.square().sum(-1))


def _by_matrices(x, y):
    """The estimate transcribed: the Gaussian of all rewards as an n x n matrix for each rho of two grids."""
    n, unit, ones = len(y), x.square().sum() / len(y), torch.ones(len(y), dtype=D)

    def fit(power):
        cov = torch.eye(n, dtype=D) + x @ x.T / (unit * 10**power)  # of y / noise
        inverse = torch.linalg.inv(cov)
        weight = ones @ inverse @ ones
        c = ones @ inverse @ y / weight
        square = (y - c) @ inverse @ (y - c)  # the likeliest noise variance is this over n - 1
        evidence = -0.5 * ((n - 1) * torch.log(square) + torch.logdet(cov) + torch.log(weight) + (power / 1.5) ** 2)
        return evidence, c, (square / (n - 1)).sqrt()

    def posterior(powers):
        weights = torch.softmax(torch.stack([fit(power)[0] for power in powers]), 0)
        mean = weights @ powers
        return mean, (weights @ (powers - mean) ** 2).sqrt()

    mean, deviation = posterior(torch.arange(-5, 5, dtype=D))
    mean, deviation = posterior(mean + (1 + 2 * deviation) * torch.linspace(-1, 1, 13, dtype=D))
    power = mean - 0.75 * deviation
    return *fit(power)[1:], unit * 10**power


@pytest.mark.parametrize(("n", "d"), [(40, 3), (12, 5), (9, 6)])
def test_the_estimate_is_the_one_by_n_by_n_matrices(n, d):
    x, y = _data((), n, d, 0.7, seed=n)
    found = evidence_scales(_sums(x, y))
    for got, want in zip((found.offset, found.noise_std, found.rho), _by_matrices(x, y), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)


def test_the_summary_is_that_of_the_ridge_matrix():
    x, y = _data((), 30, 4, 0.7)
    found = evidence_scales(_sums(x, y))
    V = found.rho * torch.eye(4, dtype=D) + x.T @ x
    torch.testing.assert_close(found.log_det, torch.logdet(V / found.rho) / 4)
    torch.testing.assert_close(found.shrinkage, torch.linalg.inv(V / found.rho).trace() / 4)
    torch.testing.assert_close(found.explained, 1 - found.noise_std.square() * 29 / (30 * y.var(correction=0)))
    torch.testing.assert_close(found.log_rho, torch.log10(found.rho / (x.square().sum() / 30)))
    joint = torch.cat((torch.ones(30, 1, dtype=D), x), dim=1)
    precision = joint.T @ joint + torch.diag(torch.cat((torch.zeros(1, dtype=D), found.rho.expand(4))))
    torch.testing.assert_close(found.offset_variance, torch.linalg.inv(precision)[0, 0])


@given(
    st.integers(0, 10_000),
    st.integers(3, 40),
    st.integers(1, 6),
    st.floats(-6, 6),
    st.floats(-1e3, 1e3),
    st.floats(-3, 3),
    st.booleans(),
)
def test_units_of_rewards_and_features_do_not_matter(seed, n, d, power, shift, length, pooled):
    x, y = _data((3,), n, d, 0.5, seed)
    g = torch.Generator().manual_seed(seed + 1)
    rotation = torch.linalg.qr(torch.randn(d, d, dtype=D, generator=g))[0]
    a, s = 10.0**power, 10.0**length
    anchor = y[0, 0]
    plain = evidence_scales(_sums(x, y - anchor), pooled=pooled)
    other_y = a * (y + shift)
    other = evidence_scales(_sums(s * x @ rotation, other_y - other_y[0, 0]), pooled=pooled)
    torch.testing.assert_close(other.noise_std / a, plain.noise_std, rtol=1e-8, atol=0, equal_nan=True)
    torch.testing.assert_close(other.rho / s**2, plain.rho, rtol=1e-8, atol=0)
    torch.testing.assert_close(other.offset / a, plain.offset, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("d", "noise"), [(5, 0.1), (10, 0.5), (20, 2.0)])
def test_the_truth_is_recovered(d, noise):
    x, y = _data((512,), 40 * d, d, noise, seed=d)
    own = evidence_scales(_sums(x, y))
    assert (own.noise_std / noise).median().item() == pytest.approx(1, abs=0.03)  # standard error of the median below 0.5%
    assert 1 / 1.5 < (own.rho / noise**2).median() < 1.5
    pooled = evidence_scales(_sums(x, y), pooled=True)
    assert pooled.noise_std.item() == pytest.approx(noise, rel=0.01)
    assert pooled.prior_std.item() == pytest.approx(1, rel=0.12)
    assert pooled.offset.item() == pytest.approx(3, abs=5 * noise / math.sqrt(512 * 40 * d))


def test_pooled_scales_of_one_bandit_are_its_own():
    x, y = _data((1,), 30, 4, 0.5)
    own, pooled = evidence_scales(_sums(x, y)), evidence_scales(_sums(x, y), pooled=True)
    for mine, ours in zip(own, pooled, strict=True):
        torch.testing.assert_close(mine[0], ours)


def test_batch_is_a_stack_of_single_bandits():
    x, y = _data((2, 3), 20, 4, 0.5)
    batch = evidence_scales(_sums(x, y))
    for i in range(2):
        for j in range(3):
            single = evidence_scales(_sums(x[i, j], y[i, j]))
            for whole, one in zip(batch, single, strict=True):
                torch.testing.assert_close(whole[i, j], one)


@pytest.mark.parametrize(
    "case", ["none", "one", "two", "equal", "zero features", "noise-free", "fewer than d", "duplicates"]
)
@pytest.mark.parametrize("pooled", [False, True])
def test_degenerate_data_give_finite_scales_or_an_unknown_noise(case, pooled):
    x, y = _data((2,), {"none": 0, "one": 1, "two": 2, "fewer than d": 4}.get(case, 30), 6, 0.5)
    if case == "equal":
        y = torch.full_like(y, 0.1) - 0.1
    elif case == "zero features":
        x = torch.zeros_like(x)
    elif case == "noise-free":
        y = x.sum(-1)
    elif case == "duplicates":
        x = x[..., :1].expand_as(x)
    found = evidence_scales(_sums(x, y), pooled=pooled)
    assert bool(found.offset.isfinite().all())
    assert bool((found.rho > 0).all() & found.rho.isfinite().all())
    unknown = case in ("none", "equal") or (case in ("one", "two") and not (pooled and case == "two"))
    assert bool(found.noise_std.isnan().all()) == unknown
    if not unknown:
        assert bool((found.noise_std > 0).all() & found.noise_std.isfinite().all())


def test_noise_has_a_floor_relative_to_the_rewards():
    x, _ = _data((), 50, 3, 0.5)
    y = x.sum(-1)
    found = evidence_scales(_sums(x, y))
    assert found.noise_std.item() >= math.sqrt(NOISE_FLOOR * y.var().item()) * 0.999


def test_wrong_shapes_and_values_are_named():
    x, y = _data((2,), 5, 3, 0.5)
    sums = _sums(x, y)
    with pytest.raises(ValueError, match=r"evidence_scales: moment must have shape \(2, 3\)"):
        evidence_scales(sums._replace(moment=sums.moment[..., :2]))
    with pytest.raises(ValueError, match=r"evidence_scales: energy .*finite"):
        evidence_scales(sums._replace(energy=sums.energy * torch.nan))
