"""Parquet files from outside: checked before they are decoded, so that a small file cannot take much memory."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from torch_softucb.errors import JournalError
from torch_softucb.recommend.log.manifests import load_durable, load_sealed
from torch_softucb.recommend.log.segments import RECORD_TYPES, is_sealed, manifest_path

# what pyarrow raises for files that are damaged or hostile
FAILURES = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError, NotImplementedError)


def damaged_parquet(path: Path, error: Exception) -> JournalError:
    """Return the exception to raise for a file of a sealed segment that cannot be read."""
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return JournalError(
        f"{path}: is damaged ({reason}); restore the file from a copy, or read what is intact with salvage_log"
    )


def checked_table(path: Path, schema: pa.Schema, sha256: str | None, rows: int | None) -> pa.Table:
    """Return the table in a file of a sealed segment.

    Args:
        path: the file.
        schema: its columns.
        sha256: its SHA-256 in hexadecimal digits; None skips the check.
        rows: its number of rows; None skips the check.

    Raises:
        JournalError: if the file is missing or damaged.
    """
    try:
        data = path.read_bytes()
        if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError("its SHA-256 is not that of the manifest")
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        if not file.schema_arrow.equals(schema):
            raise ValueError("its columns are not those of a decision log")
        if rows is not None and file.metadata.num_rows != rows:
            raise ValueError(f"it has {file.metadata.num_rows} rows, the manifest has {rows}")
        if decoded_bytes(file.metadata, set(range(file.metadata.num_columns))) > 2 * len(data):
            raise ValueError("it declares more values than it has room for")
        table = file.read()
        table.validate(full=True)
        if any(table.column(name).null_count for name in table.column_names):
            raise ValueError("a value is missing")
    except FAILURES as error:
        raise damaged_parquet(path, error) from error
    return table


def check_manifest_beside(path: Path) -> None:
    """Check the SHA-256 of a file of a sealed segment, if its manifest is next to it."""
    number, _, ending = path.name.partition(".")
    folder = path.parent
    if ending.split(".")[0] in RECORD_TYPES and number.isascii() and number.isdigit() and is_sealed(folder, int(number)):
        sealed = load_sealed(manifest_path(folder, int(number)), load_durable(folder), int(number))
        if hashlib.sha256(path.read_bytes()).hexdigest() != sealed.sha256.get(ending.split(".")[0]):
            raise damaged_parquet(path, ValueError("its SHA-256 is not that of the manifest"))


def decoded_bytes(metadata: Any, columns: set[int]) -> int:
    """Return the memory that columns of 64-bit numbers take, from the number of values that a file declares."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    return sum(8 * max(group.column(i).num_values, group.num_rows) for group in groups for i in columns)
