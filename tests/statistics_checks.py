"""Statistical tests with a stated false-alarm rate, and the probability that they detect a stated error.

A test of correct code fails with probability at most ``FALSE_ALARM``. What it would detect is computed here, too, and each
file that uses a check shows that a sampler with such an error is flagged. One seed runs with ``make test``, 100 with
``make long``.
"""

import numpy as np
import pytest
from scipy import stats

FALSE_ALARM = 1e-6
every_seed = pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 100))])


def merged_cells(observed, expected, smallest=5.0):
    """Join the rarest cells until each one has an expected count of at least ``smallest``."""
    order = np.argsort(expected)
    observed, expected = np.asarray(observed, float)[order], np.asarray(expected, float)[order]
    keep = max(int(np.searchsorted(np.cumsum(expected), smallest)), int(np.searchsorted(expected, smallest)))
    if keep == 0:
        return observed, expected
    keep = min(keep, len(expected) - 1)
    while keep < len(expected) - 1 and expected[:keep].sum() < smallest:
        keep += 1
    return np.append(observed[keep:], observed[:keep].sum()), np.append(expected[keep:], expected[:keep].sum())


def frequency_p(observed, probs):
    """p-value of the chi-square test that counts come from these probabilities; 0 if something impossible was seen."""
    observed, probs = np.asarray(observed, float), np.asarray(probs, float)
    if observed[probs == 0].any():
        return 0.0
    got, want = merged_cells(observed[probs > 0], probs[probs > 0] / probs.sum() * observed.sum())
    if len(want) == 1:
        return 1.0
    return float(stats.chi2.sf(((got - want) ** 2 / want).sum(), len(want) - 1))


def assert_frequencies(observed, probs):
    """The counts come from these probabilities; fails with probability at most ``FALSE_ALARM`` if they do."""
    p = frequency_p(observed, probs)
    assert p >= FALSE_ALARM, f"p = {p:.1e}: observed {list(observed)}, probabilities {list(probs)}"


def mean_bound(std_error, comparisons=1):
    """Distance from the true mean that a normal estimate exceeds with probability ``FALSE_ALARM`` in any comparison."""
    return stats.norm.isf(FALSE_ALARM / 2 / comparisons) * std_error


def frequency_power(probs, alternative, count):
    """Probability that ``assert_frequencies`` flags ``count`` draws from ``alternative``."""
    probs, alternative = np.asarray(probs, float), np.asarray(alternative, float)
    shift = count * ((alternative - probs) ** 2 / probs).sum()
    return float(stats.ncx2.sf(stats.chi2.isf(FALSE_ALARM, len(probs) - 1), len(probs) - 1, shift))


def mean_power(shift, std_error, comparisons=1):
    """Probability that an estimate whose mean is off by ``shift`` leaves ``mean_bound``."""
    return float(stats.norm.sf((mean_bound(std_error, comparisons) - abs(shift)) / std_error))
