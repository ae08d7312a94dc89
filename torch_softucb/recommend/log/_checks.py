"""Checks of log entries and of logs."""

import importlib.util
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.checks import check_finite, check_integer, check_same_dtype, check_shape
from torch_softucb.recommend.log.codec import SCALAR_COLUMNS, Columns
from torch_softucb.recommend.serving import Served

SPARE_BYTES = 40_000_000  # bytes that the tensors of any log may take, however small its files are


def check_logged(
    where: str,
    served: Served,
    version: int,
    context: Tensor | None,  # (N,)
    candidates: Tensor | None,  # (K,) or (N, K)
    features: Tensor | None,  # (K, d) or (N, K, d)
) -> None:
    """Check that the parts of a log entry fit the decisions."""
    check_integer(where, "version", version, low=0)
    if served.propensity is None:
        raise ValueError(
            f"{where}: served has no propensity (LinTS has none in closed form), and a log without it cannot be evaluated; "
            "use a policy with probabilities"
        )
    requests, dim = served.id.shape[: served.id.dim() - (served.k is not None)], served.x.shape[-1]
    if context is not None:
        check_shape(where, "context", context.shape, context.shape == requests, str(tuple(requests)))
    for name, value, trailing in (("candidates", candidates, "K"), ("features", features, f"K, {dim}")):
        if value is not None:
            size = trailing.count(",") + 1
            ok = value.dim() >= size and value.shape[: value.dim() - size] in ((), requests)
            check_shape(
                where, name, value.shape, ok and (size == 1 or value.shape[-1] == dim), f"({trailing}) or (N, {trailing})"
            )
    for name, value in (("context", context), ("candidates", candidates)):
        if value is not None and value.dtype != torch.int64:
            raise TypeError(f"{where}: {name} must be an int64 tensor, got dtype {value.dtype}")
    if features is not None:
        check_same_dtype(where, "features", features, "the decisions'", served.x.dtype)
        if candidates is not None and candidates.shape[-1] != features.shape[-2]:
            raise ValueError(
                f"{where}: candidates and features must have the same K, got {candidates.shape[-1]} and {features.shape[-2]}"
            )
    num = candidates.shape[-1] if candidates is not None else features.shape[-2] if features is not None else None
    if num is not None and num != served.num_arms:
        raise ValueError(f"{where}: candidates must be those that were decided on, {served.num_arms}, got {num}")


def flat_list(values: Tensor) -> list[Any]:  # (*N,)
    """Return the numbers of a tensor in order."""
    numbers: list[Any] = values.tolist() if values.dim() == 1 else values.reshape(-1).tolist()
    return numbers


def check_served_values(where: str, served: Served, ids: list[int]) -> None:
    """Check that the values of decisions are possible: arms are candidates, propensities in (0, 1], features finite."""
    assert served.propensity is not None
    arms, propensities = flat_list(served.arm), flat_list(served.propensity)
    if min(arms) < 0 or max(arms) >= served.num_arms:
        wrong = next(i for i, arm in enumerate(arms) if not 0 <= arm < served.num_arms)
        raise ValueError(f"{where}: arm must be in [0, {served.num_arms}), got {arms[wrong]} for decision {ids[wrong]}")
    if not (min(propensities) > 0 and max(propensities) <= 1) or math.isnan(sum(propensities)):
        wrong = next(i for i, p in enumerate(propensities) if not 0 < p <= 1)
        raise ValueError(f"{where}: propensity must be in (0, 1], got {propensities[wrong]} for decision {ids[wrong]}")
    if not math.isfinite(served.x.sum().item()):  # the sum of finite numbers may overflow
        check_finite(where, "x", served.x)


def check_same_dims(where: str, dims: Sequence[int] | NDArray[Any], fix: str, *, unit: str = "row") -> None:
    """Check that all decisions have the same number of features; ``unit`` names what ``dims`` are counted in."""
    lengths = np.asarray(dims)
    changed = lengths != lengths[:1]
    if changed.any():
        raise ValueError(
            f"{where}: all decisions must have features of one length, got {np.unique(lengths).tolist()}, the first change "
            f"in {unit} {int(changed.argmax())}; {fix}"
        )


def check_rows(where: str, wrong: NDArray[np.bool_], what: str, *values: NDArray[Any]) -> None:  # (n,), (n,) each
    """Raise an error about the first wrong row; ``what`` is a format of ``{row}`` and of the values in that row."""
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{where}: {what.format(*(value[row].item() for value in values), row=row)}")


def check_tensor_bytes(where: str, chunks: list[Columns], file_bytes: int, max_bytes: int | None) -> None:
    """Check that lists of different lengths do not take much more memory as tensors than in their files."""
    rows = sum(len(chunk["id"]) for chunk in chunks)
    candidates = max(chunk["candidates"].shape[1] for chunk in chunks)
    features, dim = max(chunk["features"].shape[1] for chunk in chunks), max(chunk["x"].shape[1] for chunk in chunks)
    padded = 8 * rows * (len(SCALAR_COLUMNS) + 2 + dim + candidates + features * dim)
    limit = SPARE_BYTES + 2 * file_bytes if max_bytes is None else max_bytes
    if padded > limit:
        raise ValueError(
            f"{where}: as tensors, with all candidate lists as long as the longest, the log takes {padded} bytes, more than "
            f"{limit}; pass max_bytes={padded} if that is what you expect, or read it record by record with log_records"
        )


def check_pyarrow(where: str) -> None:
    """Check that Parquet files can be read and written, before the modules that import pyarrow are imported."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ImportError(f"{where}: Parquet files need pyarrow, which is not installed; use `pip install pyarrow`")
