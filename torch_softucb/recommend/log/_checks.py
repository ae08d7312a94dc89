"""Checks of log entries and of logs."""

import importlib.util
from collections.abc import Collection

import torch
from torch import Tensor

from torch_softucb.checks import check_integer, check_same_dtype, check_shape
from torch_softucb.recommend.serving import Served


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


def check_same_dims(where: str, dims: Collection[int]) -> None:
    """Check that all decisions have the same number of features."""
    if len(set(dims)) > 1:
        raise ValueError(
            f"{where}: all decisions must have features of one length, got {sorted(set(dims))}; read the segments of one "
            "model at a time"
        )


def check_pyarrow(where: str) -> None:
    """Check that Parquet files can be read and written, before the modules that import pyarrow are imported."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ImportError(f"{where}: Parquet files need pyarrow, which is not installed; use `pip install pyarrow`")
