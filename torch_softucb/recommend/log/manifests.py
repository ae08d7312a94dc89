"""Small JSON files that describe a log: what is durable, and what each sealed segment contains.

``log.json`` is created with the folder. It names the log and a position up to which everything is durable, and is replaced
whenever a segment is closed. ``00000001.manifest.json`` is written last when a segment is sealed; a segment without it is
still its journal. Each file contains a SHA-256 of its values.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch_softucb.atomic_io import whole_file
from torch_softucb.errors import JournalError

_LOG = "log.json"


class Durable(NamedTuple):
    """What is known to be durable in a log.

    Attributes:
        log: id of the log, 32 hexadecimal digits.
        segment: number of the last segment that was closed, 0 if none was.
        records: records of that segment when it was closed.
        size: bytes of its journal when it was closed.
        ids: ranges (first, after the last) of the decision ids up to there.
    """

    log: str
    segment: int = 0
    records: int = 0
    size: int = 0
    ids: Sequence[tuple[int, int]] = ()


class Sealed(NamedTuple):
    """Contents of a sealed segment.

    Attributes:
        log: id of the log.
        segment: number of the segment.
        records: number of records.
        rows: rows of each Parquet file, by record type.
        sha256: SHA-256 of each Parquet file, by record type.
    """

    log: str
    segment: int
    records: int
    rows: dict[str, int]
    sha256: dict[str, str]


def load_durable(folder: Path, *, create: bool = False) -> Durable:
    """Return what ``log.json`` states; with ``create``, a folder without any log gets one."""
    path = folder / _LOG
    if not os.path.lexists(path) and create:
        save_durable(folder, Durable(secrets.token_hex(16)))
    durable = Durable(**_load(path, Durable))
    _check(path, len(durable.log) == 32 and not set(durable.log) - set("0123456789abcdef"))
    _check(path, all(_is_count(value) for value in durable[1:4]))
    ranges = isinstance(durable.ids, list) and all(
        isinstance(each, list) and len(each) == 2 and all(type(i) is int for i in each) for each in durable.ids
    )
    _check(path, ranges)
    return durable


def save_durable(folder: Path, durable: Durable) -> None:
    """Replace ``log.json``."""
    _save(folder / _LOG, durable._asdict())


def load_sealed(path: Path, durable: Durable, number: int) -> Sealed:
    """Return the manifest of a sealed segment, which must be this segment of this log."""
    sealed = Sealed(**_load(path, Sealed))
    _check(path, _is_count(sealed.records) and isinstance(sealed.rows, dict) and isinstance(sealed.sha256, dict))
    _check(path, all(_is_count(rows) for rows in sealed.rows.values()) and len(sealed.rows) == len(sealed.sha256) == 2)
    if (sealed.log, sealed.segment) != (durable.log, number):
        raise JournalError(
            f"{path}: is of segment {sealed.segment} of log {sealed.log}, expected segment {number} of log {durable.log}; "
            "files of several logs were mixed: restore the folder"
        )
    return sealed


def save_sealed(path: Path, sealed: Sealed) -> None:
    """Write the manifest of a sealed segment."""
    _save(path, sealed._asdict())


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _check(path: Path, ok: bool) -> None:
    if not ok:
        raise JournalError(f"{path}: does not hold what it should; restore it, or read the log with salvage_log")


def _digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _save(path: Path, values: dict[str, Any]) -> None:
    with whole_file(path) as file:
        file.write(json.dumps(values | {"checksum": _digest(values)}, indent=1).encode())


def _load(path: Path, manifest: Any) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(path.read_bytes())
        _check(path, isinstance(values, dict))
        checksum = values.pop("checksum", None)
        _check(path, set(values) == set(manifest._fields) and checksum == _digest(values))
    except FileNotFoundError as error:
        raise JournalError(f"{path}: is missing; restore it, or read the log with salvage_log") from error
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, JournalError):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise JournalError(f"{path}: cannot be read ({reason}); restore it, or read the log with salvage_log") from error
    return values
