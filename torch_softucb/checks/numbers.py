"""Checks of numbers, pairs of numbers and choices."""

import math
from collections.abc import Collection


def check_number(
    where: str,
    name: str,
    value: object,
    *,
    low: float,
    high: float = math.inf,
    open_low: bool = False,
    closed_high: bool = False,
) -> float:
    """Check that ``value`` is a finite number in ``[low, high)`` and return it as a float.

    Args:
        where: function or class that error messages begin with.
        name: argument that error messages name.
        value: what the caller passed.
        low: smallest value allowed.
        high: upper end of the interval.
        open_low: exclude ``low``.
        closed_high: include ``high``.

    Raises:
        TypeError: ``value`` is not a number, or is a bool.
        ValueError: ``value`` is outside the interval, infinite or NaN.

    Example:
        >>> check_number("f", "x", 1, low=0.0)
        1.0
        >>> check_number("f", "x", 0.0, low=0.0, open_low=True)
        Traceback (most recent call last):
        ValueError: f: x must be in (0, inf), got 0.0
    """
    interval = f"{'(' if open_low else '['}{low:g}, {high:g}{']' if closed_high else ')'}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{where}: {name} must be a number in {interval}, got {type(value).__name__}")
    inside = math.isfinite(value) and low <= value <= high
    if not inside or (open_low and value == low) or (not closed_high and value == high):
        raise ValueError(f"{where}: {name} must be in {interval}, got {value}")
    return float(value)


def check_integer(where: str, name: str, value: object, *, low: int) -> int:
    """Check that ``value`` is an int of at least ``low`` and return it."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{where}: {name} must be a whole number, at least {low}, got {value!r}")
    if value < low:
        raise ValueError(f"{where}: {name} must be at least {low}, got {value}")
    return value


def check_choice(where: str, name: str, value: object, choices: Collection[str]) -> None:
    """Check that ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{where}: {name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_delta(where: str, delta: object) -> float:
    """Check that ``delta`` is in [0.5, 1) and return it as a float.

    Departure D2: below 0.5 the coldness can be negative, and the proof of Lemma 2 fails.
    """
    if isinstance(delta, bool) or not isinstance(delta, (int, float)):
        raise TypeError(f"{where}: delta must be a number in [0.5, 1), got {type(delta).__name__}")
    if not 0.5 <= delta < 1.0:
        raise ValueError(f"{where}: delta must be in [0.5, 1), got {delta}; below 0.5 gamma can be negative (D2)")
    return float(delta)


def check_divides(where: str, name: str, value: int, by: str, parts: int) -> None:
    """Check that ``value`` is a multiple of ``parts``; ``by`` is the plural noun for what ``parts`` counts."""
    if value % parts:
        raise ValueError(f"{where}: {name} must be a multiple of the number of {by}, {parts}, got {value}")
