"""An append-only file of checksummed records that survives a crash at any moment.

Records are committed in groups. A group is a frame: a mark, its place in the file, length and CRC-32 of what follows, then
every record with its length before it. The file is laid out ahead in zeros, so that a commit writes data only. A frame is
written when the one before is safe on the disk: what was committed is there, and a damaged frame with no whole one behind it
is the last one, whose commit never returned.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from torch_softucb.atomic_io import sync_folder
from torch_softucb.errors import JournalError

_FRAME = struct.Struct("<4sQII")  # mark, place in the file, length and checksum of what follows
_MARK = b"\xabGRP"
_LENGTH = struct.Struct("<I")
_MAGIC = b"SOFTUCB1"
_AHEAD = 1 << 22  # bytes laid out at once


def records(path: Path) -> Iterator[bytes]:
    """The committed records of a journal."""
    for group, _ in _frames(path.read_bytes(), path):
        at = 0
        while at < len(group):
            (size,) = _LENGTH.unpack_from(group, at)
            at += _LENGTH.size + size
            yield group[at - size : at]


def _frames(data: bytes, path: Path) -> Iterator[tuple[bytes, int]]:
    """Groups of records, each with the place after it."""
    if data[: len(_MAGIC)] != _MAGIC:
        if _MAGIC.startswith(data.rstrip(b"\0")):  # died before its first commit
            return
        raise JournalError(f"journal {path}: does not begin as a journal does; is this another file?")
    at = len(_MAGIC)
    while (group := _frame(data, at)) is not None:
        at += _FRAME.size + len(group)
        yield group, at
    if (after := _later_frame(data, at)) is not None:
        raise JournalError(
            f"journal {path}: the records at byte {at} are damaged though whole ones follow at byte {after}: this is no "
            "torn end, the file was changed; restore it from a copy"
        )


def _later_frame(data: bytes, at: int) -> int | None:
    """Where a whole frame begins behind a damaged place. Frames say where they stand, so that one can be found anywhere."""
    end = len(data.rstrip(b"\0"))
    mark = data.find(_MARK, at + 1, end)
    while mark >= 0:
        if _frame(data, mark) is not None:
            return mark
        mark = data.find(_MARK, mark + 1, end)
    return None


def _frame(data: bytes, at: int) -> bytes | None:
    if at + _FRAME.size > len(data):
        return None
    mark, place, size, checksum = _FRAME.unpack_from(data, at)
    group = data[at + _FRAME.size : at + _FRAME.size + size]
    whole = mark == _MARK and place == at and size and len(group) == size
    return group if whole and zlib.crc32(group) == checksum else None


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
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            data = self.path.read_bytes()
            self._end = max((end for _, end in _frames(data, self.path)), default=len(_MAGIC))
            if data[self._end :].strip(b"\0"):
                self.path.with_suffix(".torn").write_bytes(data[self._end :].rstrip(b"\0"))
            os.ftruncate(self._file, self._end)
            self._write(_MAGIC, 0)
            self._laid = self._end
            self._lay_out(_AHEAD)
        except BlockingIOError as error:
            os.close(self._file)
            raise JournalError(f"journal {path}: another writer has it open; a log has one writer at a time") from error
        except BaseException:
            os.close(self._file)
            raise
        sync_folder(self.path.parent)

    def _write(self, data: bytes, at: int) -> None:
        done = 0
        while done < len(data):  # a disk that is nearly full takes a part
            done += os.pwrite(self._file, data[done:], at + done)

    def _lay_out(self, size: int) -> None:
        self._write(bytes(size), self._laid)
        self._laid += size
        os.fsync(self._file)  # the size, too: later commits write data only

    @property
    def size(self) -> int:
        """Bytes committed: where the next record will be."""
        return self._end

    def append(self, record: bytes) -> None:
        """Add a record; it is safe after the next commit."""
        if self._file < 0:
            raise JournalError(f"journal {self.path}: is closed, or a write to it has failed; open it anew")
        self._waiting += (_LENGTH.pack(len(record)), record)

    def commit(self) -> None:
        """Write what waits, and wait until the disk has it. After an error nobody knows what the disk has: the journal
        closes itself, and is to be opened anew."""
        if not self._waiting:
            return
        group = b"".join(self._waiting)
        self._waiting.clear()
        frame = _FRAME.pack(_MARK, self._end, len(group), zlib.crc32(group)) + group
        try:
            if self._end + len(frame) > self._laid:
                self._lay_out(max(_AHEAD, len(frame)))
            self._write(frame, self._end)
            os.fdatasync(self._file)
        except BaseException:
            os.close(self._file)
            self._file = -1
            raise
        self._end += len(frame)

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
