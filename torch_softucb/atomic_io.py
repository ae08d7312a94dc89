"""Write files atomically: a crash leaves the old contents or the new ones, never a part of them."""

import contextlib
import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_CAN_SYNC_FOLDERS = os.name != "nt"  # Windows does not let a program open a folder


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` only when the block ends without an exception.

    The data is written to a temporary file, synced to disk, and renamed. A process that is killed at any point leaves the
    old file or the new one. The temporary file is in the target's own folder: another folder may be on another filesystem,
    where a rename becomes a copy. Temporary files of killed processes are removed.

    Args:
        path: file to create or replace; its folder must exist.

    Yields:
        The temporary file, open for writing bytes.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "numbers"
        >>> with whole_file(target) as file:
        ...     _ = file.write(b"1 2 3")
        >>> target.read_bytes(), [file.name for file in target.parent.iterdir()]
        (b'1 2 3', ['numbers'])
    """
    target = Path(path)
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            leftover.unlink()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


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
