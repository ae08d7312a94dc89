"""The distribution of theta over users: laws of EM, and one iteration against a loop over users."""

import math

import pytest
import torch

from tests.functional.hierarchical_cases import sums_of, user_data
from torch_softucb.errors import NumericalError
from torch_softucb.functional import hierarchical_em as em
from torch_softucb.functional import hierarchical_ridge as module
from torch_softucb.functional.hierarchical_em import Model, evaluated, maximisation
from torch_softucb.functional.hierarchical_ridge import _basis, _chosen, _in_basis, _start, evidence_prior
from torch_softucb.functional.scales import RegressionSums

D = torch.double


def _relative(found, true):
    return float((found - true).norm() / true.norm())


def test_mean_and_covariance_are_recovered(seeded):
    x, y, mean, covariance = user_data(seeded, 500, 50, 8)
    found = evidence_prior(sums_of(x, y))
    assert _relative(found.mean, mean) < 0.15
    assert _relative(found.covariance, covariance) < 0.15
    assert abs(float(found.noise_std) - 0.7) < 0.01
    assert abs(float(found.offset) - 3.0) < 0.02


@pytest.mark.parametrize(("users", "n", "d"), [(500, 50, 8), (5, 20, 8), (2, 3, 4), (300, 3, 6), (40, 1, 3)])
def test_the_evidence_never_decreases(users, n, d, seeded):
    x, y, *_ = user_data(seeded, users, n, d)
    evidence = evidence_prior(sums_of(x, y)).evidence
    assert len(evidence) > 2
    assert (evidence.diff() >= -1e-9 * evidence[1:].abs()).all()


def test_the_result_is_a_fixed_point(seeded, monkeypatch):
    monkeypatch.setattr(em, "_TOLERANCE", 1e-13)
    given = sums_of(*user_data(seeded, 60, 8, 4)[:2])
    basis = _basis(given)
    sums, found = _in_basis(given, basis), evidence_prior(given)
    shrinkage = _chosen(sums, _start(sums))
    back = torch.linalg.inv(basis)
    model = Model(back.mT @ found.mean, back.mT @ found.covariance @ back, found.noise_std.square(), found.offset)
    value, expected = evaluated(sums, model, shrinkage)
    torch.testing.assert_close(value, found.evidence[-1], atol=1e-10, rtol=1e-12)
    for got, want in zip(maximisation(sums, model, expected, shrinkage), model, strict=True):
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


def test_units_of_rewards_and_features_do_not_matter(seeded):
    x, y, *_ = user_data(seeded, 40, 10, 4)
    a, k, s = 30.0, -500.0, 0.02
    plain, other = evidence_prior(sums_of(x, y)), evidence_prior(sums_of(s * x, a * y + k))
    torch.testing.assert_close(other.mean, a / s * plain.mean, rtol=1e-6, atol=0)
    torch.testing.assert_close(other.covariance, (a / s) ** 2 * plain.covariance, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(other.noise_std, a * plain.noise_std, rtol=1e-6, atol=0)
    torch.testing.assert_close(other.offset, a * plain.offset + k, rtol=1e-6, atol=0)


@pytest.mark.parametrize("users", [4, 40])
def test_each_feature_has_its_own_unit_and_users_can_be_reordered(users, seeded):
    x, y, *_ = user_data(seeded, users, 10, 4)
    unit = torch.tensor([1e-4, 1.0, 1e3, 20.0], dtype=D)
    order = torch.randperm(users, generator=seeded(6))
    plain, other = evidence_prior(sums_of(x, y)), evidence_prior(sums_of((x * unit)[order], y[order]))
    torch.testing.assert_close(other.mean * unit, plain.mean, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(other.covariance * torch.outer(unit, unit), plain.covariance, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(other.noise_std, plain.noise_std, atol=0, rtol=1e-6)


def test_rewards_whose_sums_have_lost_their_digits_are_refused(seeded):
    x, y, *_ = user_data(seeded, 40, 10, 4)
    assert abs(float(evidence_prior(sums_of(x, y + 1e4)).noise_std) - float(evidence_prior(sums_of(x, y)).noise_std)) < 1e-5
    with pytest.raises(ValueError, match="differ too little for sums in float64; subtract a constant"):
        evidence_prior(sums_of(x, y + 1e6))


def test_a_constant_feature_shares_its_weight_with_the_offset(seeded):
    x, y, mean, _ = user_data(seeded, 300, 20, 4)
    x = torch.cat((x, torch.ones_like(x[..., :1])), dim=-1)
    found = evidence_prior(sums_of(x, y))
    assert abs(float(found.offset + found.mean[-1]) - 3.0) < 0.05
    assert _relative(found.mean[:-1], mean) < 0.15


def test_users_with_fewer_observations_than_features_do_not_explain_the_noise_away(seeded, monkeypatch):
    g, (users, n, d) = seeded(0), (200, 12, 32)
    x = torch.randn(users, n, d, generator=g, dtype=D) / math.sqrt(d)
    y = (x * torch.randn(users, 1, d, generator=g, dtype=D)).sum(-1) + 0.7 * torch.randn(users, n, generator=g, dtype=D)
    found = evidence_prior(sums_of(x, y))
    assert abs(float(found.noise_std) - 0.7) < 0.1
    assert _relative(found.covariance, torch.eye(d)) < 0.2
    monkeypatch.setattr(module, "_SHRINKAGE", module._SHRINKAGE[:1])
    weak = evidence_prior(sums_of(x, y))  # what the choice of the shrinkage prevents
    assert float(weak.noise_std) < 0.5
    assert _relative(weak.covariance, torch.eye(d)) > 1


@pytest.mark.parametrize("users", [6, 60])
def test_features_need_not_be_centred_beside_a_constant(users, seeded):
    x, y, *_ = user_data(seeded, users, 10, 3)
    x[..., 2] = 2.0
    shift = torch.tensor([1990.0, -40.0, 0.0], dtype=D)
    plain, other = evidence_prior(sums_of(x, y)), evidence_prior(sums_of(x + shift, y))
    back = torch.eye(3, dtype=D)
    back[:, 2] += shift / 2  # x + shift = back @ x
    torch.testing.assert_close(back.T @ other.mean, plain.mean, rtol=0, atol=1e-6)
    torch.testing.assert_close(back.T @ other.covariance @ back, plain.covariance, rtol=0, atol=1e-6)
    torch.testing.assert_close(other.noise_std, plain.noise_std, rtol=0, atol=1e-8)


def test_a_feature_whose_sums_have_lost_their_digits_is_refused(seeded):
    x, y, *_ = user_data(seeded, 40, 10, 3)
    x[..., 1] += 1e5
    with pytest.raises(ValueError, match="feature 1 varies too little around 100000 for sums in float64; subtract"):
        evidence_prior(sums_of(x, y))


def test_many_users_start_from_a_part_of_them(seeded, monkeypatch):
    sums = sums_of(*user_data(seeded, 600, 12, 4)[:2])
    whole = evidence_prior(sums)
    monkeypatch.setattr(module, "_FEW", 100)
    monkeypatch.setattr(em, "_BLOCK", 64 * 16)
    parts = evidence_prior(sums)
    assert _relative(parts.covariance, whole.covariance) < 0.02
    assert parts.num_iterations <= whole.num_iterations + 2


def test_rewards_without_noise_have_a_floor(seeded):
    x, y, *_ = user_data(seeded, 50, 20, 3, noise=0.0)
    found = evidence_prior(sums_of(x, y))
    assert 0 < float(found.noise_std) < 0.1 * float(y.std())
    assert found.covariance.isfinite().all()
    assert (found.evidence.diff() >= -1e-9 * found.evidence[1:].abs()).all()


def test_bad_sums_are_refused(seeded):
    sums = sums_of(*user_data(seeded, 4, 5, 3)[:2])
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
        evidence_prior(sums_of(user_data(seeded, 4, 5, 3)[0], same))
    gram = sums.gram.clone()
    gram[2] = -1e3 * torch.eye(3)
    with pytest.raises(NumericalError, match=r"gram must be a sum of x x\^T.*row 2"):
        evidence_prior(sums._replace(gram=gram))


def test_inconsistent_sums_are_named_by_their_row_among_many_users(seeded):
    sums = sums_of(*user_data(seeded, 40, 5, 3)[:2])
    gram = sums.gram.clone()
    gram[17] = -1e3 * torch.eye(3)
    with pytest.raises(NumericalError, match=r"gram must be a sum of x x\^T.*row 17"):
        evidence_prior(sums._replace(gram=gram))
