"""Tables of decisions from other tools: Parquet files and DataFrames."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from torch_softucb.recommend.log._checks import SPARE_BYTES, check_rows, check_same_dims
from torch_softucb.recommend.log.codec import SCALAR_COLUMNS, Columns
from torch_softucb.recommend.log.parquet_bytes import FAILURES, decoded_bytes

_LISTS = ("x", "candidates", "features")
_SCALARS = (*SCALAR_COLUMNS, "reward", "version")
USED_COLUMNS = frozenset((*_SCALARS, *_LISTS))
_NOT_NAN = {
    "reward": "reward must be a number, or null if it has not arrived, got NaN in row {row}",
    "propensity": "propensity must be in (0, 1], got NaN in row {row}",
}
_LIST_TYPES = ("list<", "large_list<", "fixed_size_list<")


def read_table(source: Path | pa.Table, *, where: str, needed: tuple[str, ...], max_bytes: int | None = None) -> Columns:
    """Return the columns of a table as in :class:`~torch_softucb.recommend.LoggedDecisions`; absent ones are left out.

    Lists may be of any Arrow list type, and ``features`` flat (K d numbers) or nested (K lists of d numbers). A null
    reward has not arrived yet and becomes NaN.

    Args:
        source: a Parquet file, or a table in memory.
        where: function and table that error messages begin with.
        needed: columns that must be present.
        max_bytes: memory that the tensors may take; by default 40 MB and twice the size of the source.

    Raises:
        ValueError: if the file cannot be read, a column is missing, or its values do not fit together.
        TypeError: if a column has the wrong type.
    """
    size = source.nbytes if isinstance(source, pa.Table) else source.stat().st_size
    limit = SPARE_BYTES // 2 + 2 * size if max_bytes is None else max_bytes
    if isinstance(source, pa.Table):
        table = source.select(known_columns(where, source.schema, needed))
    else:
        table = _read_parquet(source, where, needed, limit)
    arrays = {name: table.column(name).combine_chunks() for name in table.column_names}
    del table, source
    return table_columns(arrays, where, limit)


def table_columns(arrays: dict[str, pa.Array], where: str, limit: int) -> Columns:
    """Return Arrow columns as numpy arrays, if they take at most ``limit`` bytes."""
    if "x" in arrays:
        lists = [_flattened(where, name, arrays[name])[1] for name in _LISTS if name in arrays]
        _check_bytes(where, sum(8 * len(lengths) * int(lengths.max(initial=0)) for lengths in lists), limit)
    columns: Columns = {name: _numbers(where, name, arrays[name]) for name in _SCALARS if name in arrays}
    if "x" not in arrays:
        return columns
    columns["x"] = x = _matrix(where, arrays, "x", 0.0, np.float64)
    return columns | _candidate_columns(where, arrays, len(x), x.shape[1])


def frame_table(where: str, frame: Any) -> pa.Table:
    """Return a DataFrame, or anything else with the Arrow stream protocol, as an Arrow table."""
    try:
        return pa.table(frame)
    except FAILURES as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"{where} cannot be converted to Arrow ({reason}); columns of lists must hold lists of numbers, or arrays with "
            "one dimension"
        ) from error


def known_columns(where: str, schema: pa.Schema, needed: Collection[str]) -> list[str]:
    """Return the names of the columns that we use, after a check of names and types."""
    _check_names(where, schema.names, needed)
    known = [name for name in (*_SCALARS, *_LISTS) if name in schema.names]
    for name in known:
        _check_type(where, name, schema.field(name).type)
    return known


def _read_parquet(path: Path, where: str, needed: Collection[str], limit: int) -> pa.Table:
    """Return the columns of a file that we know, if the sizes that it declares are not too large."""
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        known = known_columns(where, file.schema_arrow, needed)
        used = {i for i in range(file.metadata.num_columns) if file.schema.column(i).path.split(".")[0] in known}
        _check_bytes(where, decoded_bytes(file.metadata, used), limit)
        return file.read(columns=known)
    except FAILURES as error:
        if str(error).startswith(where):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{where} cannot be read as Parquet; cut short or another format? ({reason})") from error


def _check_bytes(where: str, size: int, limit: int) -> None:
    if size > limit:
        raise ValueError(
            f"{where} takes {size} bytes in memory, more than {limit}; pass max_bytes={size} if that is what you expect"
        )


def _check_type(where: str, name: str, arrow_type: pa.DataType) -> None:
    inner, depth = arrow_type, 0
    while str(inner).startswith(_LIST_TYPES) and depth < 2:
        inner, depth = inner.value_type, depth + 1
    if name in _LISTS and not depth:
        raise TypeError(
            f"{where}: column {name} must hold lists of numbers, got {arrow_type}; join its parts to one list per row"
        )
    number = pa.types.is_integer(inner) or pa.types.is_floating(inner) or pa.types.is_null(inner)
    if not number and not (name == "reward" and pa.types.is_boolean(inner)):
        raise TypeError(f"{where}: column {name} must hold numbers, got {inner}; cast it")


def _check_names(where: str, present: Collection[str], needed: Collection[str]) -> None:
    missing = [name for name in needed if name not in present]
    if missing:
        raise ValueError(
            f"{where} must have the columns {', '.join(needed)}, got none named {', '.join(missing)} among "
            f"{', '.join(present)}; rename what you have, or give the folder of a DecisionLog"
        )


def _numbers(where: str, name: str, column: pa.Array) -> NDArray[Any]:  # (n,)
    dtype: Any = SCALAR_COLUMNS.get(name, np.float64 if name == "reward" else np.int64)
    nulls = dtype is np.float64 and name != "propensity"
    if name == "propensity" and len(column) and column.null_count == len(column):
        raise ValueError(f"{where}: column propensity must have numbers, got none; leave the column out if they are unknown")
    _check_numbers(where, name, column, whole=dtype is np.int64, nulls=nulls)
    values: NDArray[Any] = pc.cast(column, pa.from_numpy_dtype(dtype)).to_numpy(zero_copy_only=False)
    nan = np.isnan(values) & ~column.is_null().to_numpy(zero_copy_only=False) if name in _NOT_NAN else np.zeros(0, bool)
    check_rows(where, nan, _NOT_NAN.get(name, ""))
    return values


def _candidate_columns(where: str, arrays: dict[str, pa.Array], rows: int, dim: int) -> Columns:
    """Return ``candidates`` (n, K) and ``features`` (n, K, d) of all candidates; K is 0 where there are none."""
    candidates, lengths = np.zeros((rows, 0), int), np.zeros(rows, int)
    if "candidates" in arrays:
        ids, numbers = _flattened(where, "candidates", arrays["candidates"])
        low, high = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
        if low < -1 or high > np.iinfo(np.int64).max:
            raise ValueError(
                f"{where}: column candidates must hold item ids of at least 0 that fit into int64, got "
                f"{low if low < -1 else high}; number the items from 0"
            )
        candidates = padded(ids.astype(np.int64), numbers, -1)
        lengths = _flattened(where, "candidates", arrays["candidates"])[1]
    flat, numbers = _flattened(where, "features", arrays["features"]) if "features" in arrays else (np.zeros(0), lengths)
    if not len(flat):
        return {"candidates": candidates, "features": np.zeros((rows, 0, dim))}
    what = f"features must have {dim} numbers, as x has, for each candidate, got {{0}} in row {{row}}"
    check_rows(where, numbers % max(dim, 1) != 0, what, numbers)
    in_row = numbers // max(dim, 1)
    if candidates.shape[1]:
        what = "candidates and features must have the same K, got {0} and {1} in row {row}"
        check_rows(where, lengths != in_row, what, lengths, in_row)
    else:  # number them in their order
        k = np.arange(in_row.max(initial=0))
        candidates = np.where(k < in_row[:, None], k, -1)
    features = padded(flat.astype(np.float64), numbers, 0.0)
    return {"candidates": candidates, "features": features.reshape(rows, -1, dim) if dim else np.zeros((rows, 0, 0))}


def _matrix(where: str, arrays: dict[str, pa.Array], name: str, empty: float, dtype: Any) -> NDArray[Any]:
    """Return a column of lists as a matrix (n, length of the longest)."""
    values, lengths = _flattened(where, name, arrays[name])
    if name == "x":
        check_same_dims(where, lengths, "leave out the rows of other models")
    return padded(values.astype(dtype), lengths, empty)


def _flattened(where: str, name: str, column: pa.Array) -> tuple[NDArray[Any], NDArray[Any]]:  # (sum,), (n,)
    """Return all numbers of a column of lists, or of lists of lists, and the number of them in each row."""
    _check_lists(where, name, column)
    lengths, inner = pc.list_value_length(column).to_numpy(zero_copy_only=False), column.flatten()
    if pa.types.is_nested(inner.type):
        _check_lists(where, name, inner, lengths)
        sizes = pc.list_value_length(inner).to_numpy(zero_copy_only=False)
        if name == "features" and len(sizes) and sizes.min() != sizes.max():
            at = int(np.flatnonzero(sizes != sizes[0])[0])
            row = int(np.searchsorted(np.cumsum(lengths), at, side="right"))
            raise ValueError(
                f"{where}: features must have one length for all candidates, got {sizes[0]} and {sizes[at]} in row {row}"
            )
        ends = np.concatenate(([0], np.cumsum(sizes)))
        lengths, inner = np.diff(ends[np.concatenate(([0], np.cumsum(lengths)))]), inner.flatten()
    _check_numbers(where, name, inner, whole=name == "candidates", nulls=False, lengths=lengths)
    return inner.to_numpy(zero_copy_only=False), lengths


def padded(values: NDArray[Any], lengths: NDArray[Any], empty: float) -> NDArray[Any]:  # (sum,), (n,) -> (n, max length)
    """Return lists of different lengths as a matrix, filled up with ``empty`` at the end of each row."""
    wide = np.full((len(lengths), int(lengths.max(initial=0))), empty, dtype=values.dtype)
    wide[np.arange(wide.shape[1]) < lengths[:, None]] = values
    return wide


def _check_lists(where: str, name: str, column: pa.Array, lengths: NDArray[Any] | None = None) -> None:
    """Check that a column holds lists without nulls; ``lengths`` of each row if it is the content of a column of lists."""
    arrow_type = str(column.type)
    if not arrow_type.startswith(_LIST_TYPES):
        raise TypeError(
            f"{where}: column {name} must hold lists of numbers, got {arrow_type}; join its parts to one list per row"
        )
    _check_no_nulls(where, name, column, "a list in every row", lengths)


def _check_numbers(
    where: str, name: str, column: pa.Array, *, whole: bool, nulls: bool, lengths: NDArray[Any] | None = None
) -> None:
    arrow_type = str(column.type)
    numbers = ("int", "uint") if whole else ("int", "uint", "float", "double", "halffloat", *["bool"] * (name == "reward"))
    if not arrow_type.startswith((*numbers, "null") if nulls else numbers):
        expected = "whole numbers" if whole else "numbers"
        raise TypeError(f"{where}: column {name} must hold {expected}, got {arrow_type}; cast it")
    if not nulls:
        _check_no_nulls(where, name, column, "a number everywhere", lengths)


def _check_no_nulls(where: str, name: str, column: pa.Array, expected: str, lengths: NDArray[Any] | None) -> None:
    if column.null_count:
        at = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
        row = at if lengths is None else int(np.searchsorted(np.cumsum(lengths), at, side="right"))
        raise ValueError(
            f"{where}: column {name} must have {expected}, got {column.null_count} nulls, the first in row {row}; leave "
            "those rows out"
        )
