"""The distribution of theta over users: laws of EM, and one iteration against a loop over users."""

import math

import pytest
import torch

from torch_softucb.errors import NumericalError
from torch_softucb.functional import hierarchical_ridge as module
from torch_softucb.functional.hierarchical_ridge import _evaluated, _maximisation, _Model, evidence_prior
from torch_softucb.functional.scales import RegressionSums

D = torch.double


def _data(seeded, users, n, d, *, noise=0.7, offset=3.0, seed=0):
    """Features, rewards, and the true mean and covariance."""
    g = seeded(seed)
    half = torch.randn(d, d, generator=g, dtype=D) / math.sqrt(d) * torch.linspace(1, 0.2, d, dtype=D)
    covariance, mean = half @ half.T + 0.02 * torch.eye(d, dtype=D), torch.randn(d, generator=g, dtype=D)
    theta = mean + torch.randn(users, d, generator=g, dtype=D) @ torch.linalg.cholesky(covariance).T
    x = torch.randn(users, n, d, generator=g, dtype=D)
    y = offset + (x * theta.unsqueeze(1)).sum(-1) + noise * torch.randn(users, n, generator=g, dtype=D)
    return x, y, mean, covariance


def _sums(x, y):
    count = torch.full(y.shape[:1], float(y.shape[1]), dtype=D)
    return RegressionSums(count, x.sum(1), y.sum(1), x.mT @ x, (x * y.unsqueeze(-1)).sum(1), y.square().sum(1))


def _relative(found, true):
    return float((found - true).norm() / true.norm())


def test_mean_and_covariance_are_recovered(seeded):
    x, y, mean, covariance = _data(seeded, 500, 50, 8)
    found = evidence_prior(_sums(x, y))
    assert _relative(found.mean, mean) < 0.15
    assert _relative(found.covariance, covariance) < 0.15
    assert abs(float(found.noise_std) - 0.7) < 0.01
    assert abs(float(found.offset) - 3.0) < 0.02


@pytest.mark.parametrize(("users", "n", "d"), [(500, 50, 8), (5, 20, 8), (2, 3, 4), (300, 3, 6), (40, 1, 3)])
def test_the_evidence_never_decreases(users, n, d, seeded):
    x, y, *_ = _data(seeded, users, n, d)
    evidence = evidence_prior(_sums(x, y)).evidence
    assert len(evidence) > 2
    assert (evidence.diff() >= -1e-9 * evidence[1:].abs()).all()


def test_one_iteration_is_the_loop_over_users(seeded):
    x, y, mean, covariance = _data(seeded, 7, 5, 3)
    users, n, d, extra = 7, 5, 3, 1.5  # extra: d / 2 users
    model = _Model(mean + 0.3, 2 * covariance, torch.tensor(0.9, dtype=D), torch.tensor(2.5, dtype=D))
    target = 0.4 * torch.eye(d, dtype=D)
    prior = torch.linalg.inv(model.covariance)
    S, mu, evidence = [], [], 0.0
    for one, rewards in zip(x, y, strict=True):
        S.append(torch.linalg.inv(one.T @ one / model.variance + prior))
        mu.append(S[-1] @ (one.T @ (rewards - model.offset) / model.variance + prior @ model.mean))
        law = torch.distributions.MultivariateNormal(
            model.offset + one @ model.mean, one @ model.covariance @ one.T + model.variance * torch.eye(n, dtype=D)
        )
        evidence += law.log_prob(rewards)
    evidence = evidence - extra * (torch.logdet(model.covariance) + torch.trace(target @ prior)) / 2
    new_mean = torch.stack(mu).mean(0)
    new_offset = sum((rewards - one @ m).sum() for one, rewards, m in zip(x, y, mu, strict=True)) / (users * n)
    spread, error = extra * target, 0.0
    for one, rewards, m, s in zip(x, y, mu, S, strict=True):
        spread = spread + s + torch.outer(m - new_mean, m - new_mean)
        error += (rewards - new_offset - one @ m).square().sum() + torch.trace(one @ s @ one.T)
    value, found = _evaluated(_sums(x, y), model, target)
    torch.testing.assert_close(value, evidence, atol=1e-10, rtol=1e-10)
    new = _maximisation(_sums(x, y), model, found, target)
    want = _Model(new_mean, spread / (users + extra), error / (users * n), new_offset)
    for got, expected in zip(new, want, strict=True):
        torch.testing.assert_close(got, expected, atol=1e-10, rtol=1e-10)


def test_the_result_is_a_fixed_point(seeded, monkeypatch):
    monkeypatch.setattr(module, "_TOLERANCE", 1e-13)
    sums = _sums(*_data(seeded, 60, 8, 4)[:2])
    target = module._start(sums).covariance
    found = evidence_prior(sums)
    model = _Model(found.mean, found.covariance, found.noise_std.square(), found.offset)
    value, expected = _evaluated(sums, model, target)
    torch.testing.assert_close(value, found.evidence[-1], atol=1e-10, rtol=1e-12)
    for got, want in zip(_maximisation(sums, model, expected, target), model, strict=True):
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


def test_units_of_rewards_and_features_do_not_matter(seeded):
    x, y, *_ = _data(seeded, 40, 10, 4)
    a, k, s = 30.0, -500.0, 0.02
    plain, other = evidence_prior(_sums(x, y)), evidence_prior(_sums(s * x, a * y + k))
    torch.testing.assert_close(other.mean, a / s * plain.mean, rtol=1e-6, atol=0)
    torch.testing.assert_close(other.covariance, (a / s) ** 2 * plain.covariance, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(other.noise_std, a * plain.noise_std, rtol=1e-6, atol=0)
    torch.testing.assert_close(other.offset, a * plain.offset + k, rtol=1e-6, atol=0)


@pytest.mark.parametrize("users", [4, 40])
def test_each_feature_has_its_own_unit_and_users_can_be_reordered(users, seeded):
    x, y, *_ = _data(seeded, users, 10, 4)
    unit = torch.tensor([1e-4, 1.0, 1e3, 20.0], dtype=D)
    order = torch.randperm(users, generator=seeded(6))
    plain, other = evidence_prior(_sums(x, y)), evidence_prior(_sums((x * unit)[order], y[order]))
    torch.testing.assert_close(other.mean * unit, plain.mean, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(other.covariance * torch.outer(unit, unit), plain.covariance, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(other.noise_std, plain.noise_std, atol=0, rtol=1e-6)


def test_rewards_whose_sums_have_lost_their_digits_are_refused(seeded):
    x, y, *_ = _data(seeded, 40, 10, 4)
    assert abs(float(evidence_prior(_sums(x, y + 1e4)).noise_std) - float(evidence_prior(_sums(x, y)).noise_std)) < 1e-5
    with pytest.raises(ValueError, match="differ too little for sums in float64; subtract a constant"):
        evidence_prior(_sums(x, y + 1e6))


def test_a_constant_feature_shares_its_weight_with_the_offset(seeded):
    x, y, mean, _ = _data(seeded, 300, 20, 4)
    x = torch.cat((x, torch.ones_like(x[..., :1])), dim=-1)
    found = evidence_prior(_sums(x, y))
    assert abs(float(found.offset + found.mean[-1]) - 3.0) < 0.05
    assert _relative(found.mean[:-1], mean) < 0.15


def test_many_users_start_from_a_part_of_them(seeded, monkeypatch):
    sums = _sums(*_data(seeded, 600, 12, 4)[:2])
    whole = evidence_prior(sums)
    monkeypatch.setattr(module, "_FEW", 100)
    monkeypatch.setattr(module, "_BLOCK", 64 * 16)
    parts = evidence_prior(sums)
    assert _relative(parts.covariance, whole.covariance) < 0.02
    assert parts.num_iterations <= whole.num_iterations + 2


def test_rewards_without_noise_have_a_floor(seeded):
    x, y, *_ = _data(seeded, 50, 20, 3, noise=0.0)
    found = evidence_prior(_sums(x, y))
    assert 0 < float(found.noise_std) < 0.1 * float(y.std())
    assert found.covariance.isfinite().all()
    assert (found.evidence.diff() >= -1e-9 * found.evidence[1:].abs()).all()


def test_bad_sums_are_refused(seeded):
    sums = _sums(*_data(seeded, 4, 5, 3)[:2])
    gone = sums._replace(num_observations=torch.tensor([5.0, 5.0, 0.0, 5.0], dtype=D))
    with pytest.raises(ValueError, match="evidence_prior: user without observations in row 2"):
        evidence_prior(gone)
    moment = sums.moment.clone()
    moment[1, 2] = torch.nan
    with pytest.raises(ValueError, match=r"evidence_prior: moment must be finite.*the first at \(1, 2\)"):
        evidence_prior(sums._replace(moment=moment))
    with pytest.raises(ValueError, match="at least two users are needed to see how they differ, got 1"):
        evidence_prior(RegressionSums(*(value[:1] for value in sums)))
    with pytest.raises(ValueError, match=r"num_observations must have shape \(U,\), one number per user"):
        evidence_prior(RegressionSums(*(value[0] for value in sums)))
    with pytest.raises(ValueError, match=r"gram must have shape \(4, 3, 3\)"):
        evidence_prior(sums._replace(gram=sums.gram[:, :2]))
    with pytest.raises(TypeError, match="gram must"):
        evidence_prior(sums._replace(gram=sums.gram.float()))
    same = torch.full((4, 5), 2.0, dtype=D)
    with pytest.raises(ValueError, match="rewards must differ, got 2 in all 20 observations"):
        evidence_prior(_sums(_data(seeded, 4, 5, 3)[0], same))
    gram = sums.gram.clone()
    gram[2] = -1e3 * torch.eye(3)
    with pytest.raises(NumericalError, match=r"gram must be a sum of x x\^T.*row 2"):
        evidence_prior(sums._replace(gram=gram))
