"""Draws that follow their stated probabilities pass, others are found at the stated number of decisions."""

import math

import pytest
import torch
from scipy import stats

from tests.statistics_checks import FALSE_ALARM, every_seed, frequency_p
from torch_softucb import functional as F


def _drawn(probs, generator):
    return torch.multinomial(probs, 1, generator=generator).squeeze(-1)


def _random(n, k, generator, dtype=torch.double):
    probs = (3 * torch.randn(n, k, generator=generator)).softmax(-1)
    probs = probs * (torch.rand(n, k, generator=generator) < 0.7).index_fill(-1, torch.tensor([0]), True)
    return (probs / probs.sum(-1, keepdim=True)).to(dtype)


@every_seed
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_draws_from_the_stated_probabilities_pass(seed, dtype, seeded):
    probs = _random(20_000, 7, seeded(seed), dtype)
    assert F.propensity_check(probs, _drawn(probs, seeded(seed + 1000)), seed=seed)[1] >= FALSE_ALARM


@every_seed
def test_one_percent_too_often_is_found_at_the_stated_number(seed, seeded):
    """0.51 instead of 0.50, 350,000 decisions: missed with a probability below 1e-6."""
    n = 350_000
    critical = stats.chi2.isf(FALSE_ALARM, 19)
    assert stats.ncx2.cdf(critical, 19, n * 20 * 20 * 0.001**2) < 1e-6
    arm = (torch.rand(n, generator=seeded(seed)) >= 0.51).long()
    assert F.propensity_check(torch.full((n, 2), 0.5), arm, seed=seed)[1] < FALSE_ALARM


def test_p_values_are_uniform(seeded):
    probs, p = _random(400, 4, seeded(0)), []
    for seed in range(2000):
        p.append(F.propensity_check(probs, _drawn(probs, seeded(seed)), seed=seed, bins=10)[1])
    counts = torch.histc(torch.tensor(p), bins=5, min=0, max=1)
    assert frequency_p(counts.numpy(), [0.2] * 5) >= FALSE_ALARM


def test_statistic_and_p_value_are_those_of_scipy(seeded):
    """One arm of probability 1: u = v, the random numbers themselves."""
    got = F.propensity_check(torch.ones(1000, 1), torch.zeros(1000, dtype=torch.int64), seed=3)
    v = torch.rand(1000, generator=seeded(3), dtype=torch.double)
    want = stats.chisquare(torch.histc(v, bins=20, min=0, max=1).numpy())
    assert got == pytest.approx((want.statistic, want.pvalue), rel=1e-10)
    assert got == F.propensity_check(torch.ones(1000, 1), torch.zeros(1000, dtype=torch.int64), seed=3)
    assert got != F.propensity_check(torch.ones(1000, 1), torch.zeros(1000, dtype=torch.int64), seed=4)


def test_u_is_below_the_drawn_arms_plus_a_part_of_its_own():
    """Alternating between two arms of probability 1/2 fills both halves; the same arm always fills one."""
    probs = torch.full((4000, 2), 0.5)
    assert F.propensity_check(probs, torch.arange(4000) % 2)[1] > FALSE_ALARM
    for arm in (0, 1):
        assert F.propensity_check(probs, torch.full((4000,), arm))[1] < FALSE_ALARM


def test_an_arm_of_probability_0_is_proof():
    probs = torch.tensor([[0.0, 1.0]]).expand(100, 2)
    assert F.propensity_check(probs, torch.tensor([0] + [1] * 99)) == (math.inf, 0.0)


@pytest.mark.parametrize(
    ("probs", "arm", "settings", "message"),
    [
        (torch.ones(99, 1), torch.zeros(99).long(), {}, "n >= 100"),
        (torch.ones(100), torch.zeros(100).long(), {}, "n >= 100"),
        (torch.full((100, 2), 0.4), torch.zeros(100).long(), {}, "sum to 1 in every row, got 0.8 in row 0"),
        (torch.full((100, 2), 0.5), torch.full((100,), 2), {}, r"\[0, 2\)"),
        (torch.tensor([[1.5, -0.5]]).expand(100, 2), torch.zeros(100).long(), {}, "probs"),
        (torch.full((100, 2), math.nan), torch.zeros(100).long(), {}, "probs"),
        (torch.ones(100, 1), torch.zeros(100).long(), {"bins": 1}, "bins"),
        (torch.ones(100, 1), torch.zeros(100).long(), {"seed": -1}, "seed"),
    ],
)
def test_bad_input_is_refused(probs, arm, settings, message):
    with pytest.raises(ValueError, match=message):
        F.propensity_check(probs, arm, **settings)
