"""Standard errors and ratios, worked out by hand."""

import pytest
import torch

from experiments.statistics import ratio, standard_error


def test_ratio_of_pairs_by_hand():
    """Twice the regret on every problem: a ratio of 2 without error."""
    theirs = torch.tensor([1.0, 2.0, 5.0])
    assert ratio(2 * theirs, theirs) == pytest.approx((2.0, 2.0, 2.0))
    r, low, high = ratio(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 2.0]))
    assert r == 1.0
    assert high - r == pytest.approx(1.96 * 2**0.5 / 2**0.5 / 2)  # differences -1, 1: deviation sqrt 2, over sqrt 2, over 2
    assert low == pytest.approx(2 * r - high)


def test_standard_error_by_hand():
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])  # variance 10 / 4
    assert standard_error(values) == pytest.approx((2.5 / 5) ** 0.5)
