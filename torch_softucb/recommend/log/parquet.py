"""Sealed segments of a log: Parquet files that any tool can read."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from torch_softucb.atomic_io import sync_folder, whole_file
from torch_softucb.recommend.log._checks import check_same_dims
from torch_softucb.recommend.log.codec import SCALAR_COLUMNS, Columns, decode
from torch_softucb.recommend.log.journal import records
from torch_softucb.recommend.log.segments import RECORD_TYPES, parquet_path, segment_path

_LIST_COLUMNS = ("x", "candidates", "features")


def seal_segment(folder: Path, number: int) -> None:
    """Write the Parquet files of a segment, then remove its journal; a crash leaves one of them or both, never neither."""
    journal = segment_path(folder, number)
    tables: dict[str, list[pa.Table]] = {record_type: [] for record_type in RECORD_TYPES}
    for place, record in enumerate(records(journal)):
        record_type, columns = decode(record)
        tables[record_type].append(_table(columns, place))
    for record_type, parts in tables.items():
        whole = pa.concat_tables(parts) if parts else _table(_empty_columns(record_type), 0)
        with whole_file(parquet_path(folder, number, record_type)) as file:
            pq.write_table(whole, file, compression="zstd")
    journal.unlink()
    sync_folder(folder)


def _empty_columns(record_type: str) -> Columns:
    if record_type == "rewards":
        return {"id": np.zeros(0, np.int64), "reward": np.zeros(0)}
    scalars = {name: np.zeros(0, dtype) for name, dtype in SCALAR_COLUMNS.items()} | {"version": np.zeros(0, np.int64)}
    return scalars | {"x": np.zeros((0, 0)), "candidates": np.zeros((0, 0), np.int64), "features": np.zeros((0, 0, 0))}


def _table(columns: Columns, place: int) -> pa.Table:
    """Return the columns of a record as a table, with the number of the record as its first column."""
    rows = len(columns["id"])
    arrays = {"record": np.full(rows, place, dtype=np.int64)}
    arrays |= {name: _lists(values) if name in _LIST_COLUMNS else values for name, values in columns.items()}
    return pa.table(arrays)


def _lists(values: NDArray[Any]) -> pa.Array:  # (n, ...) -> n lists
    rows = len(values)
    width = values.size // rows if rows else 0
    flat = values.reshape(-1)
    flat = flat.astype(np.float64) if np.issubdtype(flat.dtype, np.floating) else flat  # the same type in all segments
    return pa.LargeListArray.from_arrays(np.arange(rows + 1) * width, flat)


def read_segment(folder: Path, number: int) -> dict[str, list[Columns]]:
    """Return the columns of a sealed segment by record type; the column ``record`` is the number of each row's record."""
    found: dict[str, list[Columns]] = {}
    for record_type in RECORD_TYPES:
        table = pq.read_table(parquet_path(folder, number, record_type))
        found[record_type] = [_columns(table)] if table.num_rows else []
    return found


def _columns(table: pa.Table) -> Columns:
    columns: Columns = {}
    for name in table.column_names:
        whole = table.column(name).combine_chunks()
        if name not in _LIST_COLUMNS:
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


def padded(values: NDArray[Any], lengths: NDArray[Any], empty: float) -> NDArray[Any]:  # (sum,), (n,) -> (n, max length)
    """Return lists of different lengths as a matrix, filled up with ``empty`` at the end of each row."""
    wide = np.full((len(lengths), int(lengths.max(initial=0))), empty, dtype=values.dtype)
    wide[np.arange(wide.shape[1]) < lengths[:, None]] = values
    return wide
