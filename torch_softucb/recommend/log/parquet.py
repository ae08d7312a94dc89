"""Decisions as Parquet files that any tool reads: sealed segments of a log, and tables that another tool has written."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from torch_softucb.atomic_io import sync_folder, whole_file
from torch_softucb.recommend.log._checks import (
    check_list_column,
    check_number_column,
    check_same_dims,
    check_table_columns,
    check_whole_candidates,
    unreadable_parquet,
)
from torch_softucb.recommend.log.codec import FIXED, Columns, decode
from torch_softucb.recommend.log.journal import records
from torch_softucb.recommend.log.writer import segment_path

_RAGGED = ("x", "candidates", "features")


def seal_segment(folder: Path, number: int) -> None:
    """Write a segment's Parquet files, then remove its journal; a crash leaves one or both, never neither."""
    journal = segment_path(folder, number)
    tables: dict[str, list[pa.Table]] = {"decisions": [], "rewards": []}
    for place, record in enumerate(records(journal)):
        kind, columns = decode(record)
        tables[kind].append(_table(columns, place))
    for kind, parts in tables.items():
        whole = pa.concat_tables(parts) if parts else _table(_nothing(kind), 0)
        target = segment_path(folder, number, f"{kind}.parquet")
        with whole_file(target) as file:
            pq.write_table(whole, file, compression="zstd")
    journal.unlink()
    sync_folder(folder)


def _nothing(kind: str) -> Columns:
    if kind == "rewards":
        return {"id": np.zeros(0, np.int64), "reward": np.zeros(0)}
    flat = {name: np.zeros(0, dtype) for name, dtype in FIXED.items()} | {"version": np.zeros(0, np.int64)}
    return flat | {"x": np.zeros((0, 0)), "candidates": np.zeros((0, 0), np.int64), "features": np.zeros((0, 0, 0))}


def _table(columns: Columns, place: int) -> pa.Table:
    rows = len(columns["id"])
    arrays = {"record": np.full(rows, place, dtype=np.int64)}
    arrays |= {name: _lists(values) if name in _RAGGED else values for name, values in columns.items()}
    return pa.table(arrays)


def _lists(values: NDArray[Any]) -> pa.Array:  # (n, ...) -> n lists
    rows = len(values)
    width = values.size // rows if rows else 0
    flat = values.reshape(-1)
    flat = flat.astype(np.float64) if flat.dtype.kind == "f" else flat  # one type in all segments
    return pa.LargeListArray.from_arrays(np.arange(rows + 1) * width, flat)


def read_segment(folder: Path, number: int) -> dict[str, list[Columns]]:
    """Columns of a sealed segment, a record's rows together, with the record's place as ``record``."""
    found: dict[str, list[Columns]] = {}
    for kind in ("decisions", "rewards"):
        table = pq.read_table(segment_path(folder, number, f"{kind}.parquet"))
        found[kind] = [_columns(table)] if table.num_rows else []
    return found


def _columns(table: pa.Table) -> Columns:
    columns: Columns = {}
    for name in table.column_names:
        whole = table.column(name).combine_chunks()
        if name not in _RAGGED:
            columns[name] = whole.to_numpy()
            continue
        lengths = np.diff(whole.offsets.to_numpy())
        if name == "x":
            check_same_dims("read_log", lengths.tolist())
        columns[name] = padded(whole.flatten().to_numpy(), lengths, -1 if name == "candidates" else 0.0)
    dim = columns["x"].shape[1] if "x" in columns else 0
    if dim:
        features = columns["features"]
        columns["features"] = (
            features.reshape(len(features), -1, dim) if features.size else np.zeros((len(features), 0, dim))
        )
    return columns


def padded(values: NDArray[Any], lengths: NDArray[Any], empty: float) -> NDArray[Any]:  # (n, max length)
    wide = np.full((len(lengths), int(lengths.max(initial=0))), empty, dtype=values.dtype)
    wide[np.arange(wide.shape[1]) < lengths[:, None]] = values
    return wide


def read_table(path: Path, *, needed: tuple[str, ...]) -> Columns:
    """Columns of a table as :class:`~torch_softucb.recommend.LoggedDecisions` has them, those that are not there left out.

    Lists may be of any kind that Parquet knows, and ``features`` flat (K d numbers) or nested (K lists of d). A reward that
    is null has not come.
    """
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise unreadable_parquet(path, error) from error
    check_table_columns("read_decisions", path, table.column_names, needed)
    whole = {name: table.column(name).combine_chunks() for name in table.column_names}
    columns: Columns = {}
    for name in (*FIXED, "reward", "version"):
        if name in whole:
            kind: Any = FIXED.get(name, np.float64 if name == "reward" else np.int64)
            column = whole[name]
            check_number_column(
                "read_decisions", name, column, whole=kind is np.int64, nulls=kind is np.float64 and name != "propensity"
            )
            columns[name] = pc.cast(column, pa.from_numpy_dtype(kind)).to_numpy(zero_copy_only=False)
    if "x" not in whole:
        return columns
    columns["x"] = _matrix(whole, "x", 0.0, np.float64)
    rows, dim = columns["x"].shape
    columns["candidates"] = _matrix(whole, "candidates", -1, np.int64) if "candidates" in whole else np.zeros((rows, 0), int)
    flat = _matrix(whole, "features", 0.0, np.float64) if "features" in whole else np.zeros((rows, 0))
    lengths = _scalars("features", whole["features"])[1] if "features" in whole else np.zeros(rows, int)
    check_whole_candidates("read_decisions", lengths, columns["candidates"], dim)
    columns["features"] = flat.reshape(rows, -1, dim) if dim else np.zeros((rows, 0, 0))
    k = columns["features"].shape[1]
    if not columns["candidates"].shape[1]:  # numbered in their order
        columns["candidates"] = np.where(np.arange(k) < lengths[:, None] // max(dim, 1), np.arange(k), -1)
    return columns


def _matrix(whole: dict[str, Any], name: str, empty: float, kind: Any) -> NDArray[Any]:  # (n, longest)
    values, lengths = _scalars(name, whole[name])
    if name == "x":
        check_same_dims("read_decisions", lengths.tolist())
    return padded(values.astype(kind), lengths, empty)


def _scalars(name: str, column: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """All numbers of a column of lists, or of lists of lists, and how many each row has."""
    check_list_column("read_decisions", name, column)
    lengths, inner = pc.list_value_length(column).to_numpy(zero_copy_only=False), column.flatten()
    if pa.types.is_nested(inner.type):
        check_list_column("read_decisions", name, inner)
        sizes = pc.list_value_length(inner).to_numpy(zero_copy_only=False)
        ends = np.concatenate(([0], np.cumsum(sizes)))
        lengths, inner = np.diff(ends[np.concatenate(([0], np.cumsum(lengths)))]), inner.flatten()
    check_number_column("read_decisions", name, inner, whole=name == "candidates", nulls=False)
    return inner.to_numpy(zero_copy_only=False), lengths
