"""A file with a single writer, on every platform: a lock, writes at given positions, and durable commits."""

import os
import weakref
from pathlib import Path

from torch_softucb.errors import JournalError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
try:
    import msvcrt
except ImportError:  # everywhere else
    msvcrt = None  # type: ignore[assignment]

# on Windows other handles cannot read a locked byte: lock one beyond the data, the last that msvcrt.locking can address
_LOCKED_BYTE = 0x7FFFFFFE


class ExclusiveFile:
    """A file that one process at a time has open for writing.

    A forked process closes its copy, so that the lock is the parent's alone.

    Args:
        path: the file; created with mode 0600 if it does not exist. Its folder must exist.

    Raises:
        JournalError: if another writer has the file open, or the platform has no file locks.
    """

    def __init__(self, path: Path) -> None:
        self._handle = -1
        if fcntl is None and msvcrt is None:
            raise JournalError(
                f"{path}: writing needs a file lock, and this platform has neither fcntl nor msvcrt; write the log "
                "on Linux, macOS or Windows (reading works here)"
            )
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        self._handle = os.open(path, flags, 0o600)
        _OPEN.add(self)
        try:
            self._lock()
        except BaseException as error:
            os.close(self._handle)
            self._handle = -1
            if isinstance(error, BlockingIOError | PermissionError):  # flock raises the first, msvcrt.locking the second
                raise JournalError(f"{path}: another writer has it open; a log has one writer at a time") from error
            raise

    def _lock(self) -> None:
        if fcntl is not None:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when the file is closed
        else:
            os.lseek(self._handle, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(self._handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]

    def write_at(self, position: int, data: bytes) -> None:
        """Write all of ``data``, starting at a position in the file."""
        done = 0
        while done < len(data):  # a nearly full disk may accept only a part
            if hasattr(os, "pwrite"):
                done += os.pwrite(self._handle, data[done:], position + done)
            else:
                os.lseek(self._handle, position + done, os.SEEK_SET)
                done += os.write(self._handle, data[done:])

    def truncate(self, size: int) -> None:
        """Cut the file off at ``size`` bytes."""
        os.ftruncate(self._handle, size)

    def sync(self) -> None:
        """Make the contents and the size of the file durable."""
        os.fsync(self._handle)

    def sync_data(self) -> None:
        """Make the contents durable; on some platforms the size, too."""
        (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(self._handle)

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._handle < 0

    def close(self) -> None:
        """Close the file and release the lock; does nothing if it is closed."""
        if self.closed:
            return
        if fcntl is None:  # Windows may release a lock only some time after the file is closed
            os.lseek(self._handle, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(self._handle, msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        handle, self._handle = self._handle, -1
        os.close(handle)

    def __del__(self) -> None:
        self.close()


_OPEN: "weakref.WeakSet[ExclusiveFile]" = weakref.WeakSet()


def _close_in_child() -> None:
    for file in list(_OPEN):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
