"""Files that are whole at every moment."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write beside the target, sync, then rename: kill -9 leaves the old file or the new one, never half of one.

    The temporary file lies in the target's own folder; one from another folder may lie on another filesystem, and a move
    between filesystems is a copy. What a killed process left of one is removed.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "numbers"
        >>> with whole_file(target) as file:
        ...     _ = file.write(b"1 2 3")
        >>> target.read_bytes(), [file.name for file in target.parent.iterdir()]
        (b'1 2 3', ['numbers'])
    """
    target = Path(path)
    for left in target.parent.glob(f".{target.name}.*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            left.unlink()
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
    """Make names in a folder safe."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def unreadable_checkpoint(path: object, error: Exception) -> ValueError:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return ValueError(f"checkpoint {path}: cannot be read, cut short or not a checkpoint ({first}); use another one")
