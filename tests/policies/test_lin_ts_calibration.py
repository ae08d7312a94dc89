"""LinTS draws from the posterior, and widths cover as often as they should, over problems drawn from the prior.

Both are exact if theta ~ N(0, s^2 / alpha I) and the noise is N(0, s^2). False alarms: 1e-6 each.
"""

import pytest
import torch

from tests.statistics_checks import FALSE_ALARM, every_seed, frequency_p, mean_power
from torch_softucb import LinTS

D = torch.double
SCALE, ALPHA, DIM, ROUNDS = 0.5, 0.7, 3, 10


def _learned(problems, seed, scale=SCALE):
    """Problems from the prior, a policy that has seen ten rewards of each, and the true means of four arms."""
    g = torch.Generator().manual_seed(seed)
    theta = SCALE / ALPHA**0.5 * torch.randn(problems, DIM, generator=g, dtype=D)
    x = torch.randn(problems, ROUNDS, DIM, generator=g, dtype=D)
    y = (x @ theta.unsqueeze(-1)).squeeze(-1) + SCALE * torch.randn(problems, ROUNDS, generator=g, dtype=D)
    policy = LinTS(DIM, scale=scale, ridge_alpha=ALPHA, dtype=D)
    policy.reset(batch_shape=(problems,))
    policy.update(x, y)
    arms = torch.randn(4, DIM, generator=g, dtype=D)
    return policy(arms), theta @ arms.mT, g


def _rank_p(seed, scale=SCALE, shift=0.0):
    """Simulation-based calibration: the rank of the truth among 99 draws is uniform; 1,000 problems in 20 bins."""
    decision, means, g = _learned(1000, seed, scale)
    rank = torch.zeros(1000, dtype=torch.int64)
    for _ in range(99):
        rank += decision.draw(torch.randn(1000, DIM, generator=g, dtype=D))[:, 0] + shift < means[:, 0]
    return frequency_p(torch.bincount(rank // 5, minlength=20).numpy(), [1 / 20] * 20)


def _covered(seed, scale=SCALE):
    """Share of 25,000 intervals mu_hat +- 1.645 scale width that hold the true mean; 0.9 if all is right."""
    decision, means, _ = _learned(25_000, seed, scale)
    inside = (means - decision.mu_hat).abs() <= 1.6448536 * scale * decision.width
    return inside[:, 0].double().mean().item()


@every_seed
def test_the_truth_has_every_rank_among_the_draws(seed):
    assert _rank_p(seed) >= FALSE_ALARM


@every_seed
def test_ninety_percent_intervals_cover_ninety_percent(seed):
    """0.01 is 5.3 standard errors of 25,000 shares: a false alarm in 7 million; a share of 0.88 is detected."""
    assert _covered(seed) == pytest.approx(0.9, abs=0.01)


def test_wrong_scales_and_biased_draws_are_flagged():
    """Power: draws that are 40% too narrow or off by half a width, and intervals that are 10% too narrow."""
    for seed in range(10):
        assert _rank_p(seed, scale=0.6 * SCALE) < FALSE_ALARM
        assert _rank_p(seed, shift=0.1) < FALSE_ALARM
        assert abs(_covered(seed, scale=0.9 * SCALE) - 0.9) > 0.01
    assert mean_power(0.02, (0.09 / 25_000) ** 0.5) > 0.999
