"""Files of :func:`torch.save` with a checksum.

Such a file is a ZIP archive. The checksum is in the archive's comment, at the very end of the file, so the file stays one
that plain ``torch.load`` and Lightning can read, and the checksum cannot be separated from it. It is the SHA-256 of all
bytes before it. It detects damage, not forgery: the structure of the archive is checked too (see
:mod:`~torch_softucb.checked_files.archive`), and modules check the values of a state that they load.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import torch

from torch_softucb.atomic_io import unreadable_file, whole_file
from torch_softucb.checked_files.archive import check_archive

_MARK = b"torch_softucb sha256 "
_DIGEST = 64  # hexadecimal digits
_END = b"PK\x05\x06"  # signature of the last record of a ZIP archive, 22 bytes before the comment
_END_SIZE = 22


def save_checked(path: str | os.PathLike[str], state: object) -> None:
    """Write ``state`` by :func:`torch.save` with a checksum, atomically.

    Args:
        path: file to write; a previous one is replaced as a whole.
        state: dicts, lists, tuples, numbers, texts and dense tensors.

    Raises:
        ValueError: if ``state`` holds something that :func:`load_checked` would refuse; nothing is written.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/state.pt"
        >>> save_checked(path, {"beta": torch.ones(2)})
        >>> load_checked(path), torch.load(path, weights_only=True)
        ({'beta': tensor([1., 1.])}, {'beta': tensor([1., 1.])})
    """
    with whole_file(path) as file:
        torch.save(state, file)
        _append_checksum(file)
        try:
            check_archive(file)
        except ValueError as error:
            raise ValueError(f"{path}: cannot be saved ({error}); nothing was written") from error


def load_checked(path: str | os.PathLike[str], map_location: Callable[..., Any] | str | None = None) -> Any:
    """Load a file of :func:`save_checked`, after its checksum and its structure have been verified.

    Args:
        path: file to read.
        map_location: as in :func:`torch.load`.

    Raises:
        ValueError: if the file cannot be read, has no checksum, is damaged, or holds anything but plain data.
    """
    with open_checked(path) as file:
        try:
            return torch.load(file, map_location=map_location, weights_only=True)
        except Exception as error:  # a forged file can make the parser raise anything
            raise unreadable_file(path, error) from error


@contextmanager
def open_checked(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file of :func:`save_checked` for reading, after its checksum and its structure have been verified.

    Args:
        path: file to read.

    Yields:
        The open file, at its beginning.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise unreadable_file(path, error) from error
    with file:
        try:
            _verify_checksum(file)
            check_archive(file)
        except (OSError, ValueError) as error:
            raise unreadable_file(path, error) from error
        file.seek(0)
        yield file


def add_checksum(path: str | os.PathLike[str]) -> None:
    """Add a checksum to a file of plain :func:`torch.save` or Lightning, so that this package loads it.

    Only for files that you trust: the checksum states that the file is now as it should be.

    Args:
        path: file to rewrite, atomically. A file that has a checksum keeps it.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
            if data[-_DIGEST - len(_MARK) : -_DIGEST] == _MARK:
                _verify_checksum(file)
                return
            check_archive(file)
    except (OSError, ValueError) as error:
        raise unreadable_file(path, error) from error
    with whole_file(path) as new:
        new.write(data)
        _append_checksum(new)


def _append_checksum(file: BinaryIO) -> None:
    """Declare and write the archive's comment."""
    size = file.seek(0, os.SEEK_END)
    file.seek(size - _END_SIZE)
    end = file.read(_END_SIZE)
    if not end.startswith(_END) or end[-2:] != b"\0\0":
        raise ValueError("the archive has a comment already, or is cut short")
    file.seek(size - 2)
    file.write((len(_MARK) + _DIGEST).to_bytes(2, "little") + _MARK)
    file.flush()
    digest = _sha256(file, size + len(_MARK))
    file.write(digest)
    file.flush()


def _verify_checksum(file: BinaryIO) -> None:
    size = file.seek(0, os.SEEK_END)
    tail = _END_SIZE + len(_MARK) + _DIGEST
    if not size:
        raise ValueError("the file is empty")
    file.seek(max(0, size - tail))
    end = file.read(tail)
    if len(end) < tail or end[_END_SIZE:-_DIGEST] != _MARK:
        raise ValueError(
            "it does not end with a checksum: it is cut short or damaged, or was not written by this package; if another "
            "program wrote it and you trust it, torch_softucb.checked_files.add_checksum(path) adds one"
        )
    if end[:4] != _END or end[-_DIGEST:] != _sha256(file, size - _DIGEST):
        raise ValueError("sha256 does not match the contents: the file is damaged")


def _sha256(file: BinaryIO, length: int) -> bytes:
    """Digest of the first ``length`` bytes; leaves the file at their end."""
    digest = hashlib.sha256()
    file.seek(0)
    while length:
        block = file.read(min(length, 1 << 20))
        if not block:
            raise ValueError("the file became shorter while it was read")
        digest.update(block)
        length -= len(block)
    return digest.hexdigest().encode()
