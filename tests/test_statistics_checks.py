"""The tests of tests: right samplers pass at every seed, biased ones are flagged as often as stated."""

import numpy as np
import pytest

from tests.statistics_checks import FALSE_ALARM, frequency_p, frequency_power, mean_bound, mean_power, merged_cells

PROBS = np.array([0.4, 0.3, 0.2, 0.07, 0.02, 0.01])
BIASED = np.array([0.41, 0.29, 0.2, 0.07, 0.02, 0.01])  # one point from the second arm to the first


def test_right_counts_are_flagged_as_rarely_as_their_p_value_states():
    """10,000 samples: p-values below 1% are 1% of them, within 5 standard deviations."""
    draws = np.random.default_rng(0).multinomial(5_000, PROBS, size=10_000)
    p = np.array([frequency_p(row, PROBS) for row in draws])
    assert (p >= FALSE_ALARM).all()
    assert abs((p < 0.01).sum() - 100) < 5 * np.sqrt(99)


@pytest.mark.parametrize("count", [20_000, 50_000, 200_000])
def test_a_shift_of_one_point_is_flagged_as_often_as_computed(count):
    draws = np.random.default_rng(1).multinomial(count, BIASED, size=2_000)
    flagged = np.mean([frequency_p(row, PROBS) < FALSE_ALARM for row in draws])
    power = frequency_power(PROBS, BIASED, count)
    assert abs(flagged - power) < 5 * np.sqrt(0.25 / 2_000)
    assert (power > 0.999) == (count == 200_000)


def test_impossible_counts_are_flagged_and_rare_ones_merged():
    assert frequency_p([10, 0, 1], [0.5, 0.5, 0.0]) == 0.0
    assert frequency_p([10, 0], [1.0, 0.0]) == 1.0
    observed, expected = merged_cells([500, 480, 3, 2, 1, 0], [490, 490, 3, 2, 1, 0.1])
    assert sorted(expected) == pytest.approx([6.1, 490, 490])
    assert observed.sum() == 986
    assert frequency_p([500, 480, 3, 2, 1, 0], [0.49, 0.49, 0.01, 0.005, 0.004, 0.001]) > 0.01


def test_the_bound_of_a_mean_has_its_false_alarm_rate_and_power():
    assert mean_bound(1.0) == pytest.approx(4.89, abs=0.01)
    assert mean_bound(1.0, comparisons=10) == pytest.approx(5.33, abs=0.01)
    assert mean_power(10.0, 1.0) > 1 - 1e-6
    assert mean_power(4.89, 1.0) == pytest.approx(0.5, abs=0.01)
