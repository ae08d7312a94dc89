"""Reading one segment of a log, whether it is a journal or sealed, and though a writer may seal it meanwhile."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from torch_softucb.errors import JournalError, LogWarning
from torch_softucb.recommend.log._checks import check_pyarrow
from torch_softucb.recommend.log.codec import Columns, decode
from torch_softucb.recommend.log.frames import Contents
from torch_softucb.recommend.log.journal import check_belongs, describe_torn, read_settled
from torch_softucb.recommend.log.manifests import Durable, Sealed, load_sealed
from torch_softucb.recommend.log.segments import is_sealed, manifest_path, segment_path

Chunks = list[tuple[str, Columns]]


def read_chunks(folder: Path, number: int, durable: Durable, *, last: bool) -> Chunks:
    """Return the columns of a segment, each with its type, "decisions" or "rewards".

    Those of a journal are its records, in order. Those of a sealed segment may hold several records each, numbered by the
    column ``record``, all decisions before all rewards.

    Args:
        folder: folder of the log.
        number: number of the segment.
        durable: what is known to be durable.
        last: whether it is the last segment, which may be unfinished.

    Raises:
        JournalError: if the segment is damaged, incomplete or of another log.
    """
    if not is_sealed(folder, number):
        path = segment_path(folder, number)
        try:
            contents = read_settled(path)
        except FileNotFoundError:  # sealed since we looked
            if not is_sealed(folder, number):
                raise JournalError(f"{path}: is missing; restore it, or read what is left with salvage_log") from None
        else:
            check_journal(path, contents, durable, number, last=last)
            return decoded(path, contents)
    chunks = sealed_columns(folder, number, load_sealed(manifest_path(folder, number), durable, number))
    _check_records(folder, number, durable, 1 + max((int(columns["record"].max()) for _, columns in chunks), default=-1))
    return chunks


def _check_records(folder: Path, number: int, durable: Durable, records: int) -> None:
    if number == durable.segment and records < durable.records:
        raise JournalError(
            f"decision log {folder}: segment {number} has {records} records, but {durable.records} were durable; restore it"
        )


def sealed_columns(folder: Path, number: int, sealed: Sealed) -> Chunks:
    """Return the columns of a sealed segment."""
    check_pyarrow("read_log")
    from torch_softucb.recommend.log.parquet import read_segment

    return [
        (record_type, columns) for record_type, chunks in read_segment(folder, number, sealed).items() for columns in chunks
    ]


def check_journal(path: Path, contents: Contents, durable: Durable, number: int, *, last: bool) -> None:
    """Check that a journal is this segment, and complete; only the last segment may be unfinished, with a warning."""
    check_belongs(path, contents, bytes.fromhex(durable.log), number, durable.size if number == durable.segment else 0)
    if not last and (contents.torn or not contents.end.closed):
        raise JournalError(
            f"journal {path}: has lost its end: it is not the last segment, and has no closing mark after its "
            f"{contents.end.records} records; restore it from a copy, or read what is intact with salvage_log"
        )
    if contents.torn:
        warnings.warn(
            f"journal {path}: its last commit is incomplete and left out: {describe_torn(contents)}",
            LogWarning,
            stacklevel=3,
        )


def decoded(path: Path, contents: Contents) -> Chunks:
    """Return the columns of all records of a journal."""
    chunks: Chunks = []
    for group in contents.groups:
        for record in group:
            try:
                chunks.append(decode(record))
            except JournalError as error:
                raise JournalError(f"journal {path}: record {len(chunks)}: {error}") from error
    return chunks


def by_record(chunks: Chunks) -> Iterator[tuple[str, Columns]]:
    """Yield the records of a segment in order."""
    if not any("record" in columns for _, columns in chunks):
        yield from chunks
        return
    parts = []
    for record_type, columns in chunks:
        places = columns["record"]
        begins = [0, *(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist()]
        for begin, stop in zip(begins, [*begins[1:], len(places)], strict=True):
            record = {name: values[begin:stop] for name, values in columns.items() if name != "record"}
            parts.append((int(places[begin]), record_type, record))
    for _, record_type, record in sorted(parts, key=lambda part: part[0]):
        yield record_type, record
