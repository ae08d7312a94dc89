"""Checks of numbers and choices."""

import math
from collections.abc import Collection
from typing import Any


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
    """A finite number in ``[low, high)``; ``open_low`` leaves low out, ``closed_high`` takes high in."""
    span = f"{'(' if open_low else '['}{low:g}, {high:g}{']' if closed_high else ')'}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{where}: {name} must be a number in {span}, got {type(value).__name__}")
    inside = math.isfinite(value) and low <= value <= high
    if not inside or (open_low and value == low) or (not closed_high and value == high):
        raise ValueError(f"{where}: {name} must be in {span}, got {value}")
    return float(value)


def check_integer(where: str, name: str, value: object, *, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{where}: {name} must be a whole number, at least {low}, got {value!r}")
    if value < low:
        raise ValueError(f"{where}: {name} must be at least {low}, got {value}")
    return value


def check_choice(where: str, name: str, value: object, choices: Collection[str]) -> None:
    if value not in choices:
        raise ValueError(f"{where}: {name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_delta(where: str, delta: float) -> float:
    """Departure D2: below 0.5 the coldness can be negative and Lemma 2's proof fails."""
    if isinstance(delta, bool) or not isinstance(delta, (int, float)):
        raise TypeError(f"{where}: delta must be a number in [0.5, 1), got {type(delta).__name__}")
    if not 0.5 <= delta < 1.0:
        raise ValueError(f"{where}: delta must be in [0.5, 1), got {delta}; below 0.5 gamma can be negative (D2)")
    return float(delta)


def check_range(where: str, name: str, value: Any, *, low: float, high: float = math.inf) -> None:
    fine = isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(end, int | float) for end in value)
    if not fine or not low <= value[0] <= value[1] < high or not value[0] > 0:
        least, most = f">= {low:g}" if low else "> 0", "" if math.isinf(high) else f" and below {high:g}"
        raise ValueError(f"{where}: {name} must be (low, high), low {least} and high not below it{most}, got {value!r}")


def check_divides(where: str, name: str, value: int, by: str, parts: int) -> None:
    if value % parts:
        raise ValueError(f"{where}: {name} must be a multiple of the number of {by}, {parts}, got {value}")


def check_span(where: str, low: float, high: float) -> tuple[float, float]:
    low = check_number(where, "reward_low", low, low=-math.inf, open_low=True)
    return low, check_number(where, "reward_high", high, low=low, open_low=True)
