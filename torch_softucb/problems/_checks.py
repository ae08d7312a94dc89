"""Checks of problems."""

import math

import torch
from torch import Tensor

from torch_softucb.checks import check_batch, check_finite, check_not_negative, check_number, check_shape


def check_drift(where: str, drift_rate: object, batch: torch.Size, *, drifts: bool) -> None:
    if isinstance(drift_rate, Tensor):
        check_batch(where, "drift_rate", drift_rate, batch)
        check_finite(where, "drift_rate", drift_rate)
    else:
        check_number(where, "drift_rate", drift_rate, low=-math.inf, open_low=True)
    if not drifts and bool((torch.as_tensor(drift_rate) != 0).any()):
        raise ValueError(
            f"{where}: drift_rate must be 0 without rotated_means, the means that they turn to, got {drift_rate!r}; give both"
        )


def check_plane(where: str, dim: int) -> None:
    if dim < 2:
        raise ValueError(f"{where}: dim must be at least 2 for theta to turn in a plane, got {dim}; use drift_rate=0")


def check_noise_std(where: str, noise_std: object, batch: torch.Size) -> None:
    if not isinstance(noise_std, Tensor):
        check_number(where, "noise_std", noise_std, low=0.0)
        return
    check_batch(where, "noise_std", noise_std, batch)
    check_not_negative(where, "noise_std", noise_std)


def check_has_rows(where: str, batch: torch.Size) -> None:
    if not batch:
        raise IndexError(f"{where}: a single problem has no rows to choose from; use it as it is, or .repeat(count)")


def check_ids(where: str, ids: object, batch: torch.Size) -> None:
    if not isinstance(ids, Tensor) or ids.dtype != torch.int64:
        got = f"dtype {ids.dtype}" if isinstance(ids, Tensor) else type(ids).__name__
        raise TypeError(f"{where}: ids must be an int64 tensor, got {got}")
    check_shape(where, "ids", ids.shape, ids.shape == batch, str(tuple(batch)))
