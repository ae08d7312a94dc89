"""Read what is intact in a damaged log."""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from torch_softucb.errors import JournalError
from torch_softucb.recommend.log._checks import check_pyarrow
from torch_softucb.recommend.log.codec import Columns, decode, encode_columns
from torch_softucb.recommend.log.frames import frame_places, header_size, possible_headers, whole_group
from torch_softucb.recommend.log.log_files import LogFiles
from torch_softucb.recommend.log.segment_reader import by_record
from torch_softucb.recommend.log.segments import RECORD_TYPES, is_sealed, parquet_path, segment_path, segments


class Skipped(NamedTuple):
    """A part of a log that could not be read.

    Attributes:
        segment: number of the segment.
        file: name of the file.
        start: first byte that was skipped.
        stop: byte after the last one that was skipped.
        reason: what is wrong with it.
    """

    segment: int
    file: str
    start: int
    stop: int
    reason: str


class Salvaged(NamedTuple):
    """What is intact in a damaged log.

    Attributes:
        records: the records in order, each as ("decisions", columns) or ("rewards", columns).
        skipped: what could not be read.
    """

    records: list[tuple[str, Columns]]
    skipped: list[Skipped]


def salvage_log(folder: str | os.PathLike[str], target: str | os.PathLike[str] | None = None) -> Salvaged:
    """Read the intact groups of a damaged log, and name what is skipped. The log itself is not changed.

    Args:
        folder: folder of a :class:`DecisionLog` that no writer has open.
        target: folder for a new log with the intact records, which can be opened and read as usual; it must be empty or
            missing. Checkpoints of the old log do not fit the new one.

    Example:
        >>> import tempfile, torch
        >>> from torch_softucb import SoftUCBHead, SoftUCBPolicy
        >>> from torch_softucb.recommend import DecisionLog
        >>> head, folder = SoftUCBHead(torch.nn.Embedding(9, 2), SoftUCBPolicy(2)), Path(tempfile.mkdtemp())
        >>> with DecisionLog(folder, group=1) as log:
        ...     for _ in range(3):
        ...         log.decisions(head.serve(head(torch.tensor([[1, 2, 3]]))))
        >>> data = bytearray((folder / "00000001.journal").read_bytes())
        >>> data[200] ^= 1  # one bit, in the second group
        >>> _ = (folder / "00000001.journal").write_bytes(data)
        >>> salvaged = salvage_log(folder)
        >>> len(salvaged.records), [(part.segment, part.stop - part.start) for part in salvaged.skipped]
        (2, [(1, 130)])
    """
    folder = Path(folder)
    found: list[tuple[str, Columns]] = []
    skipped: list[Skipped] = []
    numbers = segments(folder)
    for number in range(1, max(numbers, default=0) + 1):
        if segment_path(folder, number).exists() and not is_sealed(folder, number):
            found += _from_journal(segment_path(folder, number), number, skipped)
        else:
            found += _from_parquet(folder, number, skipped)
    if target is not None:
        _write(Path(target), found)
    return Salvaged(found, skipped)


def _from_journal(path: Path, number: int, skipped: list[Skipped]) -> Iterator[tuple[str, Columns]]:
    data = path.read_bytes()
    stop = len(data.rstrip(b"\0"))
    header, found = max(
        ((header, list(frame_places(data, 0, stop, header))) for header in possible_headers(data)),
        key=lambda pair: len(pair[1]),
    )
    places, at = [*found, len(data)], 0
    try:
        at = header_size(data, path)
    except JournalError as error:
        skipped.append(Skipped(number, path.name, 0, min(places[0], stop), str(error)))
        at = min(places[0], stop)
    for place, following in pairwise(places):
        if place > at:
            skipped.append(Skipped(number, path.name, at, place, "no intact group"))
        try:
            records, end = whole_group(data, place, following, path, header)
            decoded = [decode(record) for record in records]
        except JournalError as error:
            skipped.append(Skipped(number, path.name, place, min(following, stop), str(error)))
            at = following
            continue
        yield from decoded
        at = end
    if stop > at:
        skipped.append(Skipped(number, path.name, at, stop, "no intact group"))


def _from_parquet(folder: Path, number: int, skipped: list[Skipped]) -> Iterator[tuple[str, Columns]]:
    """Yield the records of a sealed segment; a damaged file is skipped whole."""
    check_pyarrow("salvage_log")
    from torch_softucb.recommend.log.parquet import read_columns

    chunks = []
    for record_type in RECORD_TYPES:
        path = parquet_path(folder, number, record_type)
        try:
            chunks += [(record_type, columns) for columns in read_columns(path, record_type, None, None)]
        except JournalError as error:
            size = path.stat().st_size if path.exists() else 0
            skipped.append(Skipped(number, path.name, 0, size, str(error)))
    yield from by_record(chunks)


def _write(target: Path, records: list[tuple[str, Columns]]) -> None:
    if target.exists() and any(target.iterdir()):
        raise ValueError(f"salvage_log: target must be an empty folder, got {target}, which has files; use another one")
    files = LogFiles(target)
    try:
        for start in range(0, len(records), 1000):
            files.commit([encode_columns(*record) for record in records[start : start + 1000]], ticket=0)
            files.roll(1 << 26)
        for record_type, columns in records:
            if record_type == "decisions":
                files.ids.add(columns["id"].tolist())
        files.close()
    finally:
        files.release()
