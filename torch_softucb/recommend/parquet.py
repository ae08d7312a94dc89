"""Sealed segments of a decision log: Parquet files that any tool reads."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from torch_softucb.checks import check_same_dims
from torch_softucb.recommend.journal import records, sync_folder
from torch_softucb.recommend.log import segment_path
from torch_softucb.recommend.record import FIXED, Columns, decode

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
        temporary = target.with_suffix(".tmp")
        with temporary.open("wb") as file:
            pq.write_table(whole, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    sync_folder(folder)
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
