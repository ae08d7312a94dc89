"""Checks of numbers: what passes, what is refused, and that the message names the function, the argument and the range."""

import math

import numpy as np
import pytest

from torch_softucb.checks import (
    check_choice,
    check_delta,
    check_divides,
    check_integer,
    check_number,
)


@pytest.mark.parametrize(
    ("value", "settings", "inside"),
    [
        (0, {}, True),
        (1, {}, False),
        (1, {"closed_high": True}, True),
        (0.0, {"open_low": True}, False),
        (5e-324, {"open_low": True}, True),
        (np.float64(0.5), {}, True),
        (-1e-9, {}, False),
        (math.nan, {}, False),
        (math.inf, {"high": math.inf, "closed_high": True}, False),
        (1e300, {"high": math.inf}, True),
    ],
)
def test_ends_of_an_interval(value, settings, inside):
    settings = {"low": 0.0, "high": 1.0} | settings
    if inside:
        got = check_number("f", "x", value, **settings)
        assert type(got) is float
        assert got == value
    else:
        with pytest.raises(ValueError, match=r"^f: x must be in [\[(]0, (1|inf)[\])], got "):
            check_number("f", "x", value, **settings)


@pytest.mark.parametrize("value", [True, "1", None, 1j])
def test_what_is_no_number(value):
    for check in (lambda: check_number("f", "x", value, low=0.0), lambda: check_delta("f", value)):
        with pytest.raises(TypeError, match=f"must be a number in .*, got {type(value).__name__}"):
            check()
    with pytest.raises(TypeError, match="f: n must be a whole number, at least 2, got"):
        check_integer("f", "n", value, low=2)


def test_integers():
    assert check_integer("f", "n", 2, low=2) == 2
    with pytest.raises(ValueError, match="f: n must be at least 2, got 1"):
        check_integer("f", "n", 1, low=2)
    with pytest.raises(TypeError, match=r"got 2\.0"):
        check_integer("f", "n", 2.0, low=2)


def test_delta_of_d2():
    assert check_delta("f", 0.5) == 0.5
    for delta in (0.4999, 1, math.nan):
        with pytest.raises(ValueError, match=r"f: delta must be in \[0.5, 1\), got .*; below 0.5 gamma can be negative"):
            check_delta("f", delta)


def test_choices():
    check_choice("f", "mode", "a", ("a", "b"))
    with pytest.raises(ValueError, match="f: mode must be one of 'a', 'b', got 'c'"):
        check_choice("f", "mode", "c", ("a", "b"))


def test_multiples():
    check_divides("f", "rows", 6, "processes", 3)
    with pytest.raises(ValueError, match="f: rows must be a multiple of the number of processes, 3, got 7"):
        check_divides("f", "rows", 7, "processes", 3)
