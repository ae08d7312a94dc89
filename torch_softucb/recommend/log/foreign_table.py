"""Parquet tables of decisions written by other tools."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from torch_softucb.recommend.log._checks import check_same_dims
from torch_softucb.recommend.log.codec import SCALAR_COLUMNS, Columns
from torch_softucb.recommend.log.parquet import padded

_WHERE = "read_decisions"


def read_table(path: Path, *, needed: tuple[str, ...]) -> Columns:
    """Return the columns of a table as in :class:`~torch_softucb.recommend.LoggedDecisions`; absent ones are left out.

    Lists may be of any Parquet list type, and ``features`` flat (K d numbers) or nested (K lists of d numbers). A null
    reward has not arrived yet and becomes NaN.

    Args:
        path: a Parquet file.
        needed: columns that must be present.

    Raises:
        ValueError: if the file cannot be read, a column is missing, or its values do not fit together.
        TypeError: if a column has the wrong type.
    """
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{_WHERE}: {path} cannot be read as Parquet; cut short or another format? ({reason})") from error
    _check_names(path, table.column_names, needed)
    arrays = {name: table.column(name).combine_chunks() for name in table.column_names}
    columns: Columns = {
        name: _numbers(name, arrays[name]) for name in (*SCALAR_COLUMNS, "reward", "version") if name in arrays
    }
    if "x" not in arrays:
        return columns
    columns["x"] = x = _matrix(arrays, "x", 0.0, np.float64)
    return columns | _candidate_columns(arrays, len(x), x.shape[1])


def _check_names(path: Path, present: Collection[str], needed: Collection[str]) -> None:
    missing = [name for name in needed if name not in present]
    if missing:
        raise ValueError(
            f"{_WHERE}: {path} must have the columns {', '.join(needed)}, got none named {', '.join(missing)} among "
            f"{', '.join(present)}; rename what you have, or give the folder of a DecisionLog"
        )


def _numbers(name: str, column: pa.Array) -> NDArray[Any]:  # (n,)
    dtype: Any = SCALAR_COLUMNS.get(name, np.float64 if name == "reward" else np.int64)
    _check_numbers(name, column, whole=dtype is np.int64, nulls=dtype is np.float64 and name != "propensity")
    values: NDArray[Any] = pc.cast(column, pa.from_numpy_dtype(dtype)).to_numpy(zero_copy_only=False)
    return values


def _candidate_columns(arrays: dict[str, pa.Array], rows: int, dim: int) -> Columns:
    """Return ``candidates`` (n, K) and ``features`` (n, K, d) of all candidates; K is 0 where there are none."""
    candidates = _matrix(arrays, "candidates", -1, np.int64) if "candidates" in arrays else np.zeros((rows, 0), int)
    flat = _matrix(arrays, "features", 0.0, np.float64) if "features" in arrays else np.zeros((rows, 0))
    lengths = _flattened("features", arrays["features"])[1] if "features" in arrays else np.zeros(rows, int)
    _check_features(lengths, candidates, dim)
    features = flat.reshape(rows, -1, dim) if dim else np.zeros((rows, 0, 0))
    k = features.shape[1]
    if not candidates.shape[1]:  # number them in their order
        candidates = np.where(np.arange(k) < lengths[:, None] // max(dim, 1), np.arange(k), -1)
    return {"candidates": candidates, "features": features}


def _check_features(lengths: NDArray[Any], candidates: NDArray[Any], dim: int) -> None:  # (n,), (n, K)
    """Check that every row of ``features`` has d numbers for each candidate."""
    if dim and (lengths % dim).any():
        row = int((lengths % dim != 0).argmax())
        raise ValueError(
            f"{_WHERE}: features must have {dim} numbers, as x has, for each candidate, got {int(lengths[row])} in row {row}"
        )
    k = int(lengths.max(initial=0)) // max(dim, 1)
    if k and candidates.shape[1] and candidates.shape[1] != k:
        raise ValueError(
            f"{_WHERE}: candidates and features must have the same K, got {candidates.shape[1]} and {k} in the longest rows"
        )


def _matrix(arrays: dict[str, pa.Array], name: str, empty: float, dtype: Any) -> NDArray[Any]:  # (n, longest)
    values, lengths = _flattened(name, arrays[name])
    if name == "x":
        check_same_dims(_WHERE, lengths.tolist())
    return padded(values.astype(dtype), lengths, empty)


def _flattened(name: str, column: pa.Array) -> tuple[NDArray[Any], NDArray[Any]]:  # (sum,), (n,)
    """Return all numbers of a column of lists, or of lists of lists, and the number of them in each row."""
    _check_lists(name, column)
    lengths, inner = pc.list_value_length(column).to_numpy(zero_copy_only=False), column.flatten()
    if pa.types.is_nested(inner.type):
        _check_lists(name, inner)
        sizes = pc.list_value_length(inner).to_numpy(zero_copy_only=False)
        ends = np.concatenate(([0], np.cumsum(sizes)))
        lengths, inner = np.diff(ends[np.concatenate(([0], np.cumsum(lengths)))]), inner.flatten()
    _check_numbers(name, inner, whole=name == "candidates", nulls=False)
    return inner.to_numpy(zero_copy_only=False), lengths


def _check_lists(name: str, column: pa.Array) -> None:
    arrow_type = str(column.type)
    if not arrow_type.startswith(("list<", "large_list<", "fixed_size_list<")):
        raise TypeError(
            f"{_WHERE}: column {name} must hold lists of numbers, got {arrow_type}; join its parts to one list per row"
        )
    if column.null_count:
        raise ValueError(
            f"{_WHERE}: column {name} must have a list in every row, got {column.null_count} nulls; leave those rows out"
        )


def _check_numbers(name: str, column: pa.Array, *, whole: bool, nulls: bool) -> None:
    arrow_type = str(column.type)
    numbers = ("int", "uint") if whole else ("int", "uint", "float", "double", "halffloat")
    if not arrow_type.startswith((*numbers, "null") if nulls else numbers):
        expected = "whole numbers" if whole else "numbers"
        raise TypeError(f"{_WHERE}: column {name} must hold {expected}, got {arrow_type}; cast it")
    if column.null_count and not nulls:
        raise ValueError(
            f"{_WHERE}: column {name} must have a number everywhere, got {column.null_count} nulls; leave those rows out"
        )
