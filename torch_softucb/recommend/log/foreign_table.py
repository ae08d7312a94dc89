"""Parquet tables of decisions written by other tools."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from torch_softucb.recommend.log._checks import SPARE_BYTES, check_same_dims
from torch_softucb.recommend.log.codec import SCALAR_COLUMNS, Columns
from torch_softucb.recommend.log.parquet_bytes import FAILURES, decoded_bytes

_WHERE = "read_decisions"
_LISTS = ("x", "candidates", "features")
_LIST_TYPES = ("list<", "large_list<", "fixed_size_list<")


def read_table(path: Path, *, needed: tuple[str, ...], max_bytes: int | None = None) -> Columns:
    """Return the columns of a table as in :class:`~torch_softucb.recommend.LoggedDecisions`; absent ones are left out.

    Lists may be of any Parquet list type, and ``features`` flat (K d numbers) or nested (K lists of d numbers). A null
    reward has not arrived yet and becomes NaN.

    Args:
        path: a Parquet file.
        needed: columns that must be present.
        max_bytes: memory that the tensors may take; by default 40 MB and twice the size of the file.

    Raises:
        ValueError: if the file cannot be read, a column is missing, or its values do not fit together.
        TypeError: if a column has the wrong type.
    """
    table = _checked_columns(path, needed, max_bytes)
    arrays = {name: table.column(name).combine_chunks() for name in table.column_names}
    del table
    if "x" in arrays:
        _check_padded(path, arrays, max_bytes)
    columns: Columns = {
        name: _numbers(name, arrays[name]) for name in (*SCALAR_COLUMNS, "reward", "version") if name in arrays
    }
    if "x" not in arrays:
        return columns
    columns["x"] = x = _matrix(arrays, "x", 0.0, np.float64)
    return columns | _candidate_columns(arrays, len(x), x.shape[1])


def _checked_columns(path: Path, needed: Collection[str], max_bytes: int | None) -> pa.Table:
    """Return the columns of a table that we know, if the sizes that it declares are not too large."""
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        names = file.schema_arrow.names
        _check_names(path, names, needed)
        known = [name for name in (*SCALAR_COLUMNS, "reward", "version", *_LISTS) if name in names]
        for name in known:
            _check_type(name, file.schema_arrow.field(name).type)
        used = {i for i in range(file.metadata.num_columns) if file.schema.column(i).path.split(".")[0] in known}
        _check_bytes(path, decoded_bytes(file.metadata, used), max_bytes)
        return file.read(columns=known)
    except FAILURES as error:
        if str(error).startswith(_WHERE):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{_WHERE}: {path} cannot be read as Parquet; cut short or another format? ({reason})") from error


def _check_padded(path: Path, arrays: dict[str, pa.Array], max_bytes: int | None) -> None:
    """Check the memory that lists take once all rows have the length of the longest one."""
    lists = [_flattened(name, arrays[name])[1] for name in _LISTS if name in arrays]
    _check_bytes(path, sum(8 * len(lengths) * int(lengths.max(initial=0)) for lengths in lists), max_bytes)


def _check_bytes(path: Path, size: int, max_bytes: int | None) -> None:
    limit = SPARE_BYTES // 2 + 2 * path.stat().st_size if max_bytes is None else max_bytes
    if size > limit:
        raise ValueError(
            f"{_WHERE}: {path} of {path.stat().st_size} bytes takes {size} bytes in memory, more than {limit}; pass "
            f"max_bytes={size} if that is what you expect"
        )


def _check_type(name: str, arrow_type: pa.DataType) -> None:
    inner, depth = arrow_type, 0
    while str(inner).startswith(_LIST_TYPES) and depth < 2:
        inner, depth = inner.value_type, depth + 1
    if name in _LISTS and not depth:
        raise TypeError(
            f"{_WHERE}: column {name} must hold lists of numbers, got {arrow_type}; join its parts to one list per row"
        )
    if not (pa.types.is_integer(inner) or pa.types.is_floating(inner) or pa.types.is_null(inner)):
        raise TypeError(f"{_WHERE}: column {name} must hold numbers, got {inner}; cast it")


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
        check_same_dims(_WHERE, lengths.tolist(), "leave out the rows of other models")
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


def padded(values: NDArray[Any], lengths: NDArray[Any], empty: float) -> NDArray[Any]:  # (sum,), (n,) -> (n, max length)
    """Return lists of different lengths as a matrix, filled up with ``empty`` at the end of each row."""
    wide = np.full((len(lengths), int(lengths.max(initial=0))), empty, dtype=values.dtype)
    wide[np.arange(wide.shape[1]) < lengths[:, None]] = values
    return wide


def _check_lists(name: str, column: pa.Array) -> None:
    arrow_type = str(column.type)
    if not arrow_type.startswith(_LIST_TYPES):
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
