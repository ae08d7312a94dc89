"""Writer and reader of a journal, an append-only file of checksummed records that survives a crash at any moment.

Records are committed in groups, one frame each (see ``frames.py``). The file is extended with zeros ahead of time, so that a
commit writes data and leaves the size alone.
"""

import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from torch_softucb.atomic_io import sync_folder, whole_file
from torch_softucb.errors import JournalError, LogWarning
from torch_softucb.recommend.log.exclusive_file import ExclusiveFile
from torch_softucb.recommend.log.frames import (
    Contents,
    DamagedJournal,
    End,
    frame_at,
    pack_close,
    pack_group,
    pack_header,
    parse,
)

_AHEAD = 1 << 22  # bytes of zeros appended at a time
_IN_PROGRESS = 0.02  # seconds after which an incomplete frame is not taken for one that is just being written


def read_journal(path: Path) -> Contents:
    """Return the contents of a journal, which a writer may extend meanwhile.

    While a file is read, frames may arrive: the read may miss one and still see the next. So damage is reported only if a
    second look finds it, too.

    Raises:
        JournalError: if the file is not a journal, or is damaged before its last group.
        FileNotFoundError: if there is no such file.
    """
    data, seen = path.read_bytes(), -1
    while True:
        try:
            return parse(data, path)
        except DamagedJournal as damage:
            if damage.at <= seen:
                raise
            seen = damage.at
        with open(path, "rb") as file:
            file.seek(seen)
            data = data[:seen] + file.read()


def read_settled(path: Path) -> Contents:
    """Like :func:`read_journal`; an incomplete frame at the end is read again in case it is being written."""
    contents = read_journal(path)
    if contents.torn:
        time.sleep(_IN_PROGRESS)
        contents = read_journal(path)
    return contents


def describe_torn(contents: Contents) -> str:
    """Return what is known about the incomplete end of a journal."""
    frame = frame_at(contents.torn, 0, contents.end.header)
    held = "an unknown number of records" if frame is None else f"{frame.records} records"
    return f"{len(contents.torn)} bytes after byte {contents.end.size}, {held}"


class Journal:
    """Writer of a journal: ``commit`` returns once a group of records is durable.

    An incomplete group at the end of an existing file is moved to a file with the ending ``.torn``, with a
    :class:`LogWarning`. After a failed write it is unknown what has reached the disk: the journal closes itself, and every
    call raises until it is opened again. After any other exception in the middle of a write (from a signal handler)
    the next call first removes what was written.

    Args:
        path: the file; created if it does not exist.
        log: id of the log, 16 bytes.
        segment: number of the segment.
        durable: bytes that are known to be durable; a shorter file has lost some.
        ticket: the caller's number of the last entry that is durable.

    Raises:
        JournalError: if another writer has the file open, or it is not an intact journal of this log.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "1.journal"
        >>> journal = Journal(path, log=bytes(16), segment=1)
        >>> journal.commit([b"first", b"second"], ticket=2)
        >>> journal.close()
        >>> [bytes(record) for group in read_journal(path).groups for record in group]
        [b'first', b'second']
    """

    def __init__(self, path: str | os.PathLike[str], *, log: bytes, segment: int, durable: int = 0, ticket: int = 0) -> None:
        self.path = Path(path)
        self.failure: OSError | None = None
        self._interrupted = False
        if not self.path.exists():
            with whole_file(self.path) as file:
                file.write(pack_header(log, segment))
        self._file = ExclusiveFile(self.path)
        try:
            contents = read_journal(self.path)
            check_belongs(self.path, contents, log, segment, durable)
            self._state = contents.end, ticket  # replaced in one assignment, so that a signal cannot separate them
            kept = _keep_torn(self.path, contents) if contents.torn else None
            self._rewind(contents)
            if kept is not None:
                warnings.warn(
                    f"journal {self.path}: its last commit was cut off: {describe_torn(contents)}, were moved to {kept}; "
                    "that commit never returned, unless the file was damaged since",
                    LogWarning,
                    stacklevel=2,
                )
        except BaseException:
            self._file.close()
            raise

    def _rewind(self, contents: Contents | None = None) -> None:
        """Remove what follows the last whole frame, and reserve space."""
        end = self._state[0]
        self._file.truncate(end.size)
        if contents is not None and end.frames:
            # after a failed sync the system may show data that the disk does not have: write the last frame again
            with open(self.path, "rb") as file:
                file.seek(end.last)
                self._file.write_at(end.last, file.read(end.size - end.last))
        self._allocated = end.size
        self._allocate(_AHEAD)

    def _allocate(self, size: int) -> None:
        self._file.write_at(self._allocated, bytes(size))
        self._allocated += size
        self._file.sync()  # the size, too: commits sync the data only

    @property
    def end(self) -> End:
        """End of the committed data."""
        return self._state[0]

    @property
    def ticket(self) -> int:
        """The caller's number of the last entry that is durable."""
        return self._state[1]

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

    def commit(self, records: Sequence[bytes], ticket: int) -> None:
        """Write a group of records and return once it is durable."""
        frame, end = pack_group(self.end, records)
        self._write(frame, end, ticket)

    def finish(self) -> None:
        """Mark the journal as closed and cut off the unused zeros; commits may still follow."""
        if not self.end.closed or self._interrupted:
            frame, end = pack_close(self.end)
            self._write(frame, end, self.ticket)
        try:
            self._interrupted = True
            self._file.truncate(self.end.size)
            self._allocated = self.end.size
            self._file.sync()
            self._interrupted = False
        except OSError as error:
            self._fail(error)
            raise

    def _write(self, frame: bytes, end: End, ticket: int) -> None:
        if self.closed:
            raise JournalError(f"journal {self.path}: is closed, or a write to it has failed; open it again")
        try:
            if self._interrupted:
                self._rewind()
            self._interrupted = True
            if end.size > self._allocated:
                self._allocate(max(_AHEAD, len(frame)))
            self._file.write_at(self.end.size, frame)
            self._file.sync_data()
        except OSError as error:
            self._fail(error)
            raise
        self._state = end, ticket
        self._interrupted = False

    def _fail(self, error: OSError) -> None:
        self.failure = error
        self._file.close()

    def close(self) -> None:
        """Mark the journal as closed and close the file; does nothing if it is closed."""
        if not self.closed:
            self.finish()
            self._file.close()

    def release(self) -> None:
        """Close the file as it is."""
        self._file.close()


def check_belongs(path: Path, contents: Contents, log: bytes, segment: int, durable: int) -> None:
    """Check that a journal is this segment of this log and has lost nothing that is known to be durable."""
    if (contents.log, contents.segment) != (log, segment):
        raise JournalError(
            f"journal {path}: is segment {contents.segment} of log {contents.log.hex()}, expected segment {segment} of log "
            f"{log.hex()}; files of several logs were mixed: restore the folder"
        )
    if contents.end.size < durable:
        raise JournalError(
            f"journal {path}: ends after {contents.end.size} bytes, but {durable} were durable; it has lost its end: "
            "restore it from a copy, or read what is intact with salvage_log"
        )


def _keep_torn(path: Path, contents: Contents) -> Path:
    """Write the incomplete end of a journal to a new file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    count = 0
    while True:
        target = path.with_suffix(f".{count}.torn" if count else ".torn")
        try:
            handle = os.open(target, flags, 0o600)
        except FileExistsError:
            count += 1
            continue
        with open(handle, "wb") as file:
            file.write(contents.torn)
            file.flush()
            os.fsync(handle)
        sync_folder(path.parent)
        return target
