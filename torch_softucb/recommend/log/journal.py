"""An append-only file of checksummed records that survives a crash at any moment.

Records are committed in groups. Each group is a frame: a mark, its position in the file, the length and CRC-32 of the rest,
then the records, each preceded by its length. The file is extended with zeros ahead of time, so that a commit writes data
and leaves the size alone. A frame is written only after the one before it is durable. So everything that was committed is in
the file, and a damaged frame with no intact one behind it is the last one, whose commit never returned.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from torch_softucb.atomic_io import sync_folder
from torch_softucb.errors import JournalError
from torch_softucb.recommend.log.exclusive_file import ExclusiveFile

_FRAME = struct.Struct("<4sQII")  # mark, position in the file, length and checksum of the group
_MARK = b"\xabGRP"
_LENGTH = struct.Struct("<I")  # before each record
_MAGIC = b"SOFTUCB1"
_AHEAD = 1 << 22  # bytes of zeros appended at a time


def records(path: Path) -> Iterator[bytes]:
    """Yield the committed records of a journal, in order.

    Raises:
        JournalError: if the file is not a journal, or is damaged before its last group.
    """
    for group, _ in _frames(path.read_bytes(), path):
        at = 0
        while at < len(group):
            (size,) = _LENGTH.unpack_from(group, at)
            at += _LENGTH.size + size
            yield group[at - size : at]


def _frames(data: bytes, path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield the groups of records, each with the position after it."""
    if data[: len(_MAGIC)] != _MAGIC:
        if _MAGIC.startswith(data.rstrip(b"\0")):  # the writer died before its first commit
            return
        raise JournalError(f"journal {path}: does not begin as a journal does; is this another file?")
    at = len(_MAGIC)
    while (group := _frame(data, at)) is not None:
        at += _FRAME.size + len(group)
        yield group, at
    if (after := _later_frame(data, at)) is not None:
        raise JournalError(
            f"journal {path}: the records at byte {at} are damaged though whole ones follow at byte {after}; this is not a "
            "torn end: the file was changed; restore it from a copy"
        )


def _later_frame(data: bytes, at: int) -> int | None:
    """Return where the next intact frame begins after a damaged one; each frame contains its own position."""
    end = len(data.rstrip(b"\0"))
    mark = data.find(_MARK, at + 1, end)
    while mark >= 0:
        if _frame(data, mark) is not None:
            return mark
        mark = data.find(_MARK, mark + 1, end)
    return None


def _frame(data: bytes, at: int) -> bytes | None:
    """Return the group of the frame at this position, None if it is not intact."""
    if at + _FRAME.size > len(data):
        return None
    mark, place, size, checksum = _FRAME.unpack_from(data, at)
    group = data[at + _FRAME.size : at + _FRAME.size + size]
    whole = mark == _MARK and place == at and size and len(group) == size
    return group if whole and zlib.crc32(group) == checksum else None


class Journal:
    """Writer of a journal: ``append`` buffers records, ``commit`` makes them durable.

    Args:
        path: the file; created if it does not exist. A torn group at its end is moved to a file with the ending ``.torn``.

    Raises:
        JournalError: if another writer has the file open, or it is not an intact journal.

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
        self._file = ExclusiveFile(self.path)
        try:
            data = self.path.read_bytes()
            self._end = max((end for _, end in _frames(data, self.path)), default=len(_MAGIC))
            if data[self._end :].strip(b"\0"):
                self.path.with_suffix(".torn").write_bytes(data[self._end :].rstrip(b"\0"))
            self._file.truncate(self._end)
            self._file.write_at(0, _MAGIC)
            self._allocated = self._end
            self._allocate(_AHEAD)
        except BaseException:
            self._file.close()
            raise
        sync_folder(self.path.parent)

    def _allocate(self, size: int) -> None:
        self._file.write_at(self._allocated, bytes(size))
        self._allocated += size
        self._file.sync()  # the size, too: commits sync the data only

    @property
    def size(self) -> int:
        """Number of committed bytes, which is the position of the next group."""
        return self._end

    def append(self, record: bytes) -> None:
        """Buffer a record; it is durable after the next commit."""
        if self._file.closed:
            raise JournalError(f"journal {self.path}: is closed, or a write to it has failed; open it again")
        self._waiting += (_LENGTH.pack(len(record)), record)

    def commit(self) -> None:
        """Write the buffered records and return once they are durable.

        After an error it is unknown what reached the disk. The journal then closes itself; open it again to find out.
        """
        if not self._waiting:
            return
        group = b"".join(self._waiting)
        self._waiting.clear()
        frame = _FRAME.pack(_MARK, self._end, len(group), zlib.crc32(group)) + group
        try:
            if self._end + len(frame) > self._allocated:
                self._allocate(max(_AHEAD, len(frame)))
            self._file.write_at(self._end, frame)
            self._file.sync_data()
        except BaseException:
            self._file.close()
            raise
        self._end += len(frame)

    def close(self) -> None:
        """Commit, cut off the unused zeros and close the file."""
        if not self._file.closed:
            self.commit()
            self._file.truncate(self._end)
            self._file.sync()
            self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
