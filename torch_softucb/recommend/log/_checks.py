"""Checks of logged decisions and of files with decisions."""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from torch_softucb.checks import check_finite, check_integer, check_same_dtype, check_shape
from torch_softucb.functional._checks import check_log_columns


def check_logged(
    where: str,
    served: Any,
    version: object,
    context: Tensor | None,
    candidates: Tensor | None,
    features: Tensor | None,
) -> None:
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
    if len(set(dims)) > 1:
        raise ValueError(
            f"{where}: all decisions must have features of one length, got {sorted(set(dims))}; read the segments of one "
            "model at a time"
        )


def check_decision_file(where: str, path: Any) -> None:
    if not path.exists():
        raise ValueError(f"{where}: {path} is not there; give a decision log's folder, or a Parquet file of decisions")
    if path.name.endswith(".rewards.parquet"):
        raise ValueError(f"{where}: {path} holds rewards; give the .decisions.parquet file beside it, or the folder")


def unreadable_parquet(path: object, error: Exception) -> ValueError:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return ValueError(f"read_decisions: {path} cannot be read as Parquet, cut short or of another kind ({first})")


def check_table_columns(where: str, path: object, there: Collection[str], needed: Collection[str]) -> None:
    missing = [name for name in needed if name not in there]
    if missing:
        raise ValueError(
            f"{where}: {path} must have the columns {', '.join(needed)}, got none named {', '.join(missing)} among "
            f"{', '.join(there)}; rename what you have, or give the folder of a DecisionLog"
        )


def check_list_column(where: str, name: str, column: Any) -> None:
    """A column of lists without a null among them."""
    kind = str(column.type)
    if not kind.startswith(("list<", "large_list<", "fixed_size_list<")):
        raise TypeError(f"{where}: column {name} must hold lists of numbers, got {kind}; join its parts to one list a row")
    if column.null_count:
        raise ValueError(
            f"{where}: column {name} must have a list in every row, got {column.null_count} nulls; leave them out"
        )


def check_number_column(where: str, name: str, column: Any, *, whole: bool, nulls: bool) -> None:
    kind = str(column.type)
    numbers = ("int", "uint") if whole else ("int", "uint", "float", "double", "halffloat")
    if not kind.startswith((*numbers, "null") if nulls else numbers):
        raise TypeError(f"{where}: column {name} must hold {'whole numbers' if whole else 'numbers'}, got {kind}; cast it")
    if column.null_count and not nulls:
        raise ValueError(
            f"{where}: column {name} must have a number everywhere, got {column.null_count} nulls; leave those rows out"
        )


def check_whole_candidates(where: str, lengths: Any, candidates: Any, dim: int) -> None:
    """``features`` of every row: d numbers for each candidate."""
    if dim and (lengths % dim).any():
        row = int((lengths % dim != 0).argmax())
        raise ValueError(
            f"{where}: features must have {dim} numbers, as x has, for each candidate, got {int(lengths[row])} in row {row}"
        )
    k = int(lengths.max(initial=0)) // max(dim, 1)
    if k and candidates.shape[1] and candidates.shape[1] != k:
        raise ValueError(
            f"{where}: candidates and features must have the same K, got {candidates.shape[1]} and {k} in the longest rows"
        )


def check_logged_numbers(where: str, log: Any) -> None:
    """Columns of a log that is to be learned from."""
    if not len(log.id):
        raise ValueError(f"{where}: at least one decision is needed, got none")
    if not log.x.shape[1]:
        raise ValueError(f"{where}: x must have at least one number in every row, got none")
    check_finite(where, "x", log.x)
    check_finite(where, "features", log.features)
    check_log_columns(where, None, None, log.propensity, log.x.shape)
    if bool(log.reward.isinf().any()):
        raise ValueError(
            f"{where}: reward must be finite, got an infinite one in row {int(log.reward.isinf().nonzero()[0])}"
        )
    if not bool((~log.reward.isnan()).any()):
        raise ValueError(
            f"{where}: no decision has a reward, of {len(log.id)}; bring the rewards, joined by id, or the log's folder"
        )
