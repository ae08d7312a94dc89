"""The files of a decision log.

A log is a folder of segments, numbered from 1. The last segment is a journal that is still written to. Each earlier one is a
journal or, once sealed, two Parquet files, one of decisions and one of rewards.
"""

from pathlib import Path
from typing import NamedTuple

RECORD_TYPES = ("decisions", "rewards")


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


def segments(folder: Path) -> list[int]:
    """Return the numbers of the segments in a folder, in order."""
    return sorted({int(path.name[:8]) for path in folder.glob("????????.*") if path.name[:8].isdigit()})


def is_sealed(folder: Path, number: int) -> bool:
    """Return whether both Parquet files of a segment exist."""
    return all(parquet_path(folder, number, record_type).exists() for record_type in RECORD_TYPES)
