"""An append-only file of checksummed records that survives a crash at any moment.

Records are committed in groups. A group is a frame: length and CRC-32 of what follows (little-endian, 4 bytes each), then
every record with its length before it. The file is laid out ahead in zeros, so that a commit writes data only, and a length
of 0 marks the end. A frame is written when the one before is safe on the disk: what was committed is there, and a damaged
frame can only be the last one, whose commit never returned.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

_FRAME = struct.Struct("<II")
_LENGTH = struct.Struct("<I")
_MAGIC = b"SOFTUCB1"
_AHEAD = 1 << 22  # bytes laid out at once


class JournalError(ValueError):
    """A journal that cannot be read as it should."""


def records(path: Path, start: int = 0) -> Iterator[bytes]:
    """The committed records of a journal from byte ``start`` on, as :attr:`Journal.size` gives it (0: all)."""
    for group, _ in _frames(path.read_bytes(), path, start):
        at = 0
        while at < len(group):
            (size,) = _LENGTH.unpack_from(group, at)
            at += _LENGTH.size + size
            yield group[at - size : at]


def _frames(data: bytes, path: Path, start: int = 0) -> Iterator[tuple[bytes, int]]:
    """Groups of records, each with the place after it."""
    if data[: len(_MAGIC)] != _MAGIC:
        if _MAGIC.startswith(data.rstrip(b"\0")):  # died before its first commit
            return
        raise JournalError(f"journal {path}: does not begin as a journal does; is this another file?")
    at = max(start, len(_MAGIC))
    while (group := _frame(data, at)) is not None:
        at += _FRAME.size + len(group)
        yield group, at
    if at + _FRAME.size <= len(data):
        after = at + _FRAME.size + _FRAME.unpack_from(data, at)[0]
        if after > at + _FRAME.size and _frame(data, after) is not None:
            raise JournalError(
                f"journal {path}: the records at byte {at} are damaged though whole ones follow at byte {after}: this is no "
                "torn end, the file was changed; restore it from a copy"
            )


def _frame(data: bytes, at: int) -> bytes | None:
    if at + _FRAME.size > len(data):
        return None
    size, checksum = _FRAME.unpack_from(data, at)
    group = data[at + _FRAME.size : at + _FRAME.size + size]
    return group if size and len(group) == size and zlib.crc32(group) == checksum else None


class Journal:
    """Appends records to a file; ``commit`` makes them safe.

    Args:
        path: the file; made if it is not there. If it ends in a torn group, that goes into a file beside it (``.torn``).

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "1.journal"
        >>> with Journal(path) as journal:
        ...     journal.append(b"first")
        >>> list(records(path))
        [b'first']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._waiting: list[bytes] = []
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        data = self.path.read_bytes()
        self._end = max((end for _, end in _frames(data, self.path)), default=len(_MAGIC))
        if data[self._end :].strip(b"\0"):
            self.path.with_suffix(".torn").write_bytes(data[self._end :].rstrip(b"\0"))
        os.ftruncate(self._file, self._end)
        os.pwrite(self._file, _MAGIC, 0)
        self._laid = self._end
        self._lay_out(_AHEAD)
        sync_folder(self.path.parent)

    def _lay_out(self, size: int) -> None:
        os.pwrite(self._file, bytes(size), self._laid)
        self._laid += size
        os.fsync(self._file)  # the size, too: later commits write data only

    @property
    def size(self) -> int:
        """Bytes committed: where the next record will be."""
        return self._end

    def append(self, record: bytes) -> None:
        """Add a record; it is safe after the next commit."""
        self._waiting += (_LENGTH.pack(len(record)), record)

    def commit(self) -> None:
        """Write what waits, and wait until the disk has it."""
        if not self._waiting:
            return
        group = b"".join(self._waiting)
        frame = _FRAME.pack(len(group), zlib.crc32(group)) + group
        if self._end + len(frame) + _FRAME.size > self._laid:
            self._lay_out(max(_AHEAD, len(frame) + _FRAME.size))
        os.pwrite(self._file, frame, self._end)
        os.fdatasync(self._file)
        self._end += len(frame)
        self._waiting.clear()

    def close(self) -> None:
        if self._file >= 0:
            self.commit()
            os.ftruncate(self._file, self._end)
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sync_folder(folder: Path) -> None:
    """Make names in a folder safe."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
