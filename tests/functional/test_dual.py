"""eta as a dual variable."""

import math

import pytest
import torch

from torch_softucb import functional as F


def test_by_hand():
    error = F.coverage_error(torch.tensor(0.8), 0.9)
    assert error.item() == pytest.approx(math.log(9) - math.log(4), abs=1e-6)
    assert F.dual_eta(torch.tensor(-3.0), error).item() == pytest.approx(math.exp(-3 + 2.5 * error.item()), rel=1e-5)
    assert F.dual_ascent(torch.tensor(-3.0), error).item() == pytest.approx(-3 + 0.25 * error.item(), rel=1e-5)
    assert F.normalised_slope(torch.tensor(-3.0), torch.tensor(2.0), torch.tensor(0.5)).item() == pytest.approx(-0.5)


@pytest.mark.parametrize("coverage", [0.0, 1.0])
def test_no_coverage_and_full_coverage_stay_finite(coverage):
    error = F.coverage_error(torch.tensor(coverage), 0.85)
    assert error.isfinite()
    assert (error > 0) == (coverage == 0)
    assert F.normalised_slope(torch.tensor(0.0), torch.tensor(0.0), torch.tensor(1.0)) == 0


@pytest.mark.parametrize("start", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("target", [0.8, 0.95])
def test_a_smooth_toy_ends_at_the_target_from_any_start(start, target):
    """coverage = 1 - exp(-2 beta), reward part -0.02 (1 + beta), penalty 10: beta must end at -log(1 - target) / 2."""
    beta, log_eta = torch.tensor(1.0), torch.tensor(math.log(start))
    for _ in range(200):
        error = F.coverage_error(1 - torch.exp(-2 * beta), target)
        slope = F.normalised_slope(-0.02 * (1 + beta), torch.tensor(10.0), F.dual_eta(log_eta, error))
        beta = (beta + 0.2 * slope).clamp(min=0)
        log_eta = F.dual_ascent(log_eta, error)
    assert beta.item() == pytest.approx(-math.log(1 - target) / 2, rel=0.01)
    assert log_eta.exp().item() == pytest.approx(0.002 * (1 + beta.item()), rel=0.05)


def test_in_one_trajectory_the_sign_of_the_reward_part_does_not_count():
    """Parts in balance and an error e: tanh(2.5 e / 2), for a reward part of either sign and for none."""
    reward = torch.tensor([-0.06, 0.06, 0.0], dtype=torch.double)
    penalty, log_eta = torch.full_like(reward, 3.0), torch.full_like(reward, 0.02).log()
    log_eta[2] = 7.0  # not looked at
    for error in (-5.0, -0.1, 0.0, 0.4):
        slope = F.unsigned_slope(reward, penalty, log_eta, torch.full_like(reward, error))
        assert slope.tolist() == pytest.approx([math.tanh(1.25 * error)] * 3, abs=1e-10)
    quiet = F.unsigned_slope(reward, torch.zeros_like(reward), log_eta, torch.ones_like(reward))
    assert quiet.tolist() == [-1, -1, 0]


def test_eta_cannot_be_wound_up_beyond_its_dtype():
    log_eta = torch.zeros(())
    for _ in range(10_000):
        log_eta = F.dual_ascent(log_eta, F.coverage_error(torch.tensor(0.0), 0.999))
    for reward in (-0.06, 0.0, 0.06):
        error = F.coverage_error(torch.tensor(0.0), 0.999)
        slope = F.unsigned_slope(torch.tensor(reward), torch.tensor(10.0), log_eta, error)
        assert -1 <= slope <= 1
