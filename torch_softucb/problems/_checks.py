"""Checks of the fields of a problem."""

import math

import torch
from torch import Tensor

from torch_softucb.checks import (
    check_batch,
    check_finite,
    check_float_tensor,
    check_integer,
    check_not_negative,
    check_number,
    check_shape,
)

MAX_DELAY = 4096  # rounds; every trajectory keeps the features of as many open rewards


def check_drift(where: str, drift_rate: float | Tensor, batch: torch.Size, *, drifts: bool) -> None:
    """Require a finite number or one per bandit, and 0 if there are no rotated means to drift to."""
    if isinstance(drift_rate, Tensor):
        check_batch(where, "drift_rate", drift_rate, batch)
        check_finite(where, "drift_rate", drift_rate)
    else:
        check_number(where, "drift_rate", drift_rate, low=-math.inf, open_low=True)
    if not drifts and bool((torch.as_tensor(drift_rate) != 0).any()):
        raise ValueError(
            f"{where}: drift_rate must be 0 without rotated_means, got {drift_rate!r}; pass rotated_means too, the mean "
            "rewards after theta has rotated by a quarter turn"
        )


def check_rotation_dim(where: str, dim: int) -> None:
    """Require at least two features, since theta rotates in a plane."""
    if dim < 2:
        raise ValueError(f"{where}: dim must be at least 2 for theta to rotate, got {dim}; use more features or no drift")


def check_noise_std(where: str, noise_std: float | Tensor, batch: torch.Size) -> None:
    """Require a number >= 0, or one per bandit."""
    if not isinstance(noise_std, Tensor):
        check_number(where, "noise_std", noise_std, low=0.0)
        return
    check_batch(where, "noise_std", noise_std, batch)
    check_not_negative(where, "noise_std", noise_std)


def check_has_rows(where: str, batch: torch.Size) -> None:
    """Require a batch dimension to select from."""
    if not batch:
        raise IndexError(f"{where}: a single problem cannot be indexed; use it directly, or .repeat(count)")


def check_ids(where: str, ids: Tensor, batch: torch.Size) -> None:
    """Require int64 ids, one per bandit."""
    if not isinstance(ids, Tensor) or ids.dtype != torch.int64:
        got = f"dtype {ids.dtype}" if isinstance(ids, Tensor) else type(ids).__name__
        raise TypeError(f"{where}: ids must be an int64 tensor, got {got}; use torch.arange(count), or leave them out")
    check_shape(where, "ids", ids.shape, ids.shape == batch, str(tuple(batch)))


def check_range(where: str, name: str, value: object, *, low: float, high: float = math.inf) -> None:
    """Check that ``value`` is a pair of positive numbers ``(first, last)`` with low <= first <= last < high."""
    if isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(end, int | float) for end in value):
        first, last = value
        if first > 0 and low <= first <= last < high:
            return
    smallest = f">= {low:g}" if low else "> 0"
    largest = "" if math.isinf(high) else f" and below {high:g}"
    raise ValueError(
        f"{where}: {name} must be (low, high) with low {smallest} and high not below low{largest}, got {value!r}"
    )


def check_rounds_late(where: str, delay: object) -> int:
    """Check a fixed delay and return it."""
    late = check_integer(where, "delay", delay, low=0)
    if late > MAX_DELAY:
        raise ValueError(f"{where}: delay must be at most {MAX_DELAY} rounds, got {late}")
    return late


def check_delay_probabilities(where: str, delay: Tensor, device: torch.device) -> None:
    """Require the probabilities of 0, 1, ... rounds of delay."""
    check_float_tensor(where, "delay", delay, device=device)
    fits = delay.dim() == 1 and 1 <= len(delay) <= MAX_DELAY + 1
    check_shape(where, "delay", delay.shape, fits, f"(D + 1,), with D at most {MAX_DELAY}")
    check_not_negative(where, "delay", delay)
    total = float(delay.sum())
    if not 0 < total <= 1 + 1e-6:
        raise ValueError(f"{where}: delay must be probabilities that add up to more than 0 and at most 1, got {total:.4g}")
