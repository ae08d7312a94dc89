"""The files of a decision log.

A log is a folder of segments, numbered from 1. The last segment is a journal that is still written to. Each earlier one is a
closed journal or, once sealed, two Parquet files, one of decisions and one of rewards, with a manifest. The writer locks the
file ``lock``, and ``log.json`` names the log. Other files are ignored.
"""

import contextlib
import re
from pathlib import Path
from typing import NamedTuple

from torch_softucb.errors import JournalError
from torch_softucb.recommend.log.manifests import Durable

RECORD_TYPES = ("decisions", "rewards")
_NAME = re.compile(r"([0-9]{8})\.(journal|manifest\.json)")


class Place(NamedTuple):
    """A position in a log, between two records.

    Attributes:
        segment: number of the segment.
        record: number of records of that segment before this position.
    """

    segment: int
    record: int


def segment_path(folder: Path, number: int, ending: str = "journal") -> Path:
    """Return the path of a file of a segment."""
    return folder / f"{number:08d}.{ending}"


def parquet_path(folder: Path, number: int, record_type: str) -> Path:
    """Return the path of the Parquet file with the decisions, or the rewards, of a sealed segment."""
    return segment_path(folder, number, f"{record_type}.parquet")


def manifest_path(folder: Path, number: int) -> Path:
    """Return the path of the manifest of a sealed segment."""
    return segment_path(folder, number, "manifest.json")


def segments(folder: Path) -> list[int]:
    """Return the numbers of the segments in a folder, in order."""
    names = [_NAME.fullmatch(path.name) for path in folder.iterdir()] if folder.is_dir() else []
    return sorted({int(name[1]) for name in names if name is not None})


def complete_segments(folder: Path, durable: Durable) -> list[int]:
    """Return the numbers of the segments, which must have no gap and contain all that is durable."""
    for _ in range(5):  # a folder that is listed while a segment is sealed may show neither of its files
        numbers = segments(folder)
        missing = sorted(set(range(1, max([*numbers, durable.segment]) + 1)) - set(numbers))
        if not missing:
            return numbers
    raise JournalError(
        f"decision log {folder}: {'segment' if len(missing) == 1 else 'segments'} {', '.join(map(str, missing))} of "
        f"{max([*numbers, durable.segment])} missing; restore the files, or read what is left with salvage_log"
    )


def is_sealed(folder: Path, number: int) -> bool:
    """Return whether a segment is sealed: its manifest is written after its Parquet files."""
    return manifest_path(folder, number).exists()


def log_bytes(folder: Path) -> int:
    """Return the size of all journals and Parquet files of a log."""
    total = 0
    for path in folder.iterdir():
        if path.suffix in (".journal", ".parquet"):
            with contextlib.suppress(FileNotFoundError):  # sealed meanwhile
                total += path.stat().st_size
    return total
