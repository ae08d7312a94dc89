"""Sealed segments of a log: Parquet files that any tool can read, with checksums.

The files are written without compression, so that a reader knows from the size of a file how much memory it can take.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from torch_softucb.atomic_io import sync_folder, whole_file
from torch_softucb.recommend.log.codec import SCALAR_COLUMNS, Columns
from torch_softucb.recommend.log.manifests import Sealed, save_sealed
from torch_softucb.recommend.log.parquet_bytes import FAILURES, checked_table, damaged_parquet
from torch_softucb.recommend.log.segments import RECORD_TYPES, manifest_path, parquet_path, segment_path

_LIST_COLUMNS = ("x", "candidates", "features")
_GROUP_BYTES = 1 << 23  # size from which records are written as a row group
_TYPES = {"x": pa.large_list(pa.float64()), "candidates": pa.large_list(pa.int64()), "features": pa.large_list(pa.float64())}


def _schema(record_type: str) -> pa.Schema:
    if record_type == "rewards":
        return pa.schema([("record", pa.int64()), ("id", pa.int64()), ("reward", pa.float64())])
    scalars = [(name, pa.from_numpy_dtype(dtype)) for name, dtype in (*SCALAR_COLUMNS.items(), ("version", np.int64))]
    return pa.schema([("record", pa.int64()), *scalars, *_TYPES.items()])


def seal_segment(folder: Path, number: int, log: str, records: Sequence[tuple[str, Columns]]) -> None:
    """Write the Parquet files of a segment, then its manifest, then remove its journal.

    A crash leaves the journal, or all other files, or both.
    """
    rows, sha256 = {}, {}
    for record_type in RECORD_TYPES:
        chosen = [(place, columns) for place, (name, columns) in enumerate(records) if name == record_type]
        path = parquet_path(folder, number, record_type)
        with whole_file(path) as file:
            rows[record_type] = _write(file, record_type, chosen)
        sha256[record_type] = hashlib.sha256(path.read_bytes()).hexdigest()
    save_sealed(manifest_path(folder, number), Sealed(log, number, len(records), rows, sha256))
    segment_path(folder, number).unlink(missing_ok=True)
    sync_folder(folder)


def _write(file: Any, record_type: str, records: list[tuple[int, Columns]]) -> int:
    """Write records to a file, in row groups of whole records; returns the number of rows."""
    schema, rows = _schema(record_type), 0
    with pq.ParquetWriter(file, schema, compression="none", use_dictionary=False, write_page_checksum=True) as writer:
        waiting, size = [schema.empty_table()], 0
        for place, columns in records:
            waiting.append(_table(columns, place, schema))
            rows += len(columns["id"])
            size += waiting[-1].nbytes
            if size > _GROUP_BYTES:
                writer.write_table(pa.concat_tables(waiting))
                waiting, size = [schema.empty_table()], 0
        writer.write_table(pa.concat_tables(waiting))
    return rows


def _table(columns: Columns, place: int, schema: pa.Schema) -> pa.Table:
    """Return the columns of a record as a table, with the number of the record as its first column."""
    arrays = {"record": np.full(len(columns["id"]), place, dtype=np.int64)}
    arrays |= {name: _lists(values) if name in _LIST_COLUMNS else values for name, values in columns.items()}
    return pa.table(arrays).select(schema.names).cast(schema)


def _lists(values: NDArray[Any]) -> pa.Array:  # (n, ...) -> n lists
    rows = len(values)
    width = values.size // rows if rows else 0
    flat = values.reshape(-1)
    flat = flat.astype(np.float64) if np.issubdtype(flat.dtype, np.floating) else flat  # the same type in all segments
    return pa.LargeListArray.from_arrays(np.arange(rows + 1) * width, flat)


def read_segment(folder: Path, number: int, sealed: Sealed) -> dict[str, list[Columns]]:
    """Return the columns of a sealed segment by record type, in chunks whose rows have lists of the same lengths.

    The column ``record`` is the number of each row's record.

    Raises:
        JournalError: if a file is missing or is not the one that the manifest describes.
    """
    found: dict[str, list[Columns]] = {}
    for record_type in RECORD_TYPES:
        path = parquet_path(folder, number, record_type)
        found[record_type] = read_columns(path, record_type, sealed.sha256.get(record_type), sealed.rows.get(record_type))
    present = np.concatenate([chunk["record"] for chunks in found.values() for chunk in chunks] or [np.zeros(0, np.int64)])
    if not np.array_equal(np.unique(present), np.arange(sealed.records)):
        reason = ValueError(f"it does not have the {sealed.records} records of its manifest")
        raise damaged_parquet(parquet_path(folder, number, "*"), reason)
    return found


def read_columns(path: Path, record_type: str, sha256: str | None, rows: int | None) -> list[Columns]:
    """Return the columns of one file of a sealed segment; None for ``sha256`` or ``rows`` does not check them."""
    table = checked_table(path, _schema(record_type), sha256, rows)
    try:
        return list(_chunks(table)) if table.num_rows else []
    except FAILURES as error:
        raise damaged_parquet(path, error) from error


def _chunks(table: pa.Table) -> Iterator[Columns]:
    """Yield the rows of a table; a chunk ends where the length of a list changes."""
    scalars = {name: table.column(name).to_numpy() for name in table.column_names if name not in _LIST_COLUMNS}
    lists = {name: table.column(name).combine_chunks() for name in table.column_names if name in _LIST_COLUMNS}
    offsets = {name: array.offsets.to_numpy() for name, array in lists.items()}
    values = {name: array.values.to_numpy() for name, array in lists.items()}
    changes = np.zeros(table.num_rows, bool)
    changes[0] = True
    for each in offsets.values():
        lengths = np.diff(each)
        changes[1:] |= lengths[1:] != lengths[:-1]
    for begin, stop in zip(np.flatnonzero(changes), [*np.flatnonzero(changes)[1:], table.num_rows], strict=True):
        chunk = {name: column[begin:stop] for name, column in scalars.items()}
        for name, each in offsets.items():
            chunk[name] = values[name][each[begin] : each[stop]].reshape(stop - begin, -1 if each[stop] > each[begin] else 0)
        if "x" in chunk:
            dim, flat = chunk["x"].shape[1], chunk["features"]
            chunk["features"] = flat.reshape(len(flat), flat.shape[1] // dim if dim else 0, dim)
        yield chunk
