"""Write files atomically: a crash leaves the old contents or the new ones, never a part of them."""

import contextlib
import glob
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_CAN_SYNC_FOLDERS = os.name != "nt"  # Windows does not let a program open a folder
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_ABANDONED = 3600.0  # seconds after which a temporary file is taken for abandoned, where files cannot be locked


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` only when the block ends without an exception.

    The data is written to a temporary file, synced to disk, and renamed. A process that is killed at any point leaves the
    old file or the new one, and several processes or threads may write the same path: the last one wins. The temporary
    file is in the target's own folder, because another folder may be on another filesystem, where a rename becomes a copy.
    Its name is random and it is never opened through a symlink. Temporary files of killed processes are removed; those of
    live ones are locked and stay.

    A new file can be read and written by its owner only (mode 0600); a file that is replaced keeps its mode. If ``path`` is
    a symlink, the file that it points to is replaced.

    Args:
        path: file to create or replace; its folder must exist.

    Yields:
        The temporary file, open for writing and reading bytes.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "numbers"
        >>> with whole_file(target) as file:
        ...     _ = file.write(b"1 2 3")
        >>> target.read_bytes(), [file.name for file in target.parent.iterdir()]
        (b'1 2 3', ['numbers'])
    """
    target = Path(os.path.realpath(path))
    _remove_abandoned(target)
    handle, temporary = _new_temporary(target)
    try:
        with open(handle, "w+b") as file:
            yield file
            file.flush()
            if target.exists() and hasattr(os, "fchmod"):
                os.fchmod(handle, stat.S_IMODE(target.stat().st_mode))
            os.fsync(handle)
            if os.name != "nt":  # while the lock is held: nothing may take the file for abandoned
                temporary.replace(target)
        if os.name == "nt":
            temporary.replace(target)
        sync_folder(target.parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _new_temporary(target: Path) -> tuple[int, Path]:
    """Create and lock a temporary file next to ``target``."""
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
        handle = os.open(temporary, _NEW_FILE, 0o600)
        try:
            if fcntl is None:
                return handle, temporary
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is(handle, temporary):
                return handle, temporary
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # another process has removed it between its creation and the lock


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of ``target`` whose process was killed."""
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        with contextlib.suppress(OSError):  # removed meanwhile, in use, or a symlink
            if fcntl is None:
                if time.time() - leftover.stat().st_mtime > _ABANDONED:
                    leftover.unlink()
                continue
            handle = os.open(leftover, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is(handle, leftover):
                    leftover.unlink()
            finally:
                os.close(handle)


def _is(handle: int, path: Path) -> bool:
    """Whether an open file is still the one at ``path``."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def sync_folder(folder: Path) -> None:
    """Make the creation, renaming and removal of files in ``folder`` durable.

    Does nothing on Windows, where a folder cannot be opened and the filesystem journals such changes itself.
    """
    if not _CAN_SYNC_FOLDERS:
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def unreadable_file(path: str | os.PathLike[str], error: Exception) -> ValueError:
    """Return the exception to raise for a checkpoint that cannot be loaded.

    Args:
        path: the checkpoint.
        error: what the reader raised; the first line of its text becomes part of the message.

    Example:
        >>> print(unreadable_file("policy.ckpt", EOFError("Ran out of input")))
        policy.ckpt: cannot be read (Ran out of input); the file is missing, cut short or not a checkpoint; use another copy
    """
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ValueError(
        f"{path}: cannot be read ({reason}); the file is missing, cut short or not a checkpoint; use another copy"
    )
