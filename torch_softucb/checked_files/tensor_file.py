"""Safetensors files with a checksum in their metadata, over all bytes of the file but the checksum's own digits."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from torch_softucb.atomic_io import unreadable_file, whole_file

_FIELD = re.compile(rb'"sha256":"([0-9a-f]{64})"')  # quotes inside a text are escaped, so no note can look like this
_MAX_HEADER = 1 << 20  # bytes; a tensor takes about 100


def save_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and texts as safetensors with a checksum, atomically.

    Args:
        path: file to write; a previous one is replaced as a whole.
        tensors: contiguous tensors, by name.
        metadata: texts, by name; ``sha256`` is added.

    Raises:
        ValueError: if names, shapes and texts together take more than 1 MB.
    """
    data = bytearray(save(dict(tensors), metadata={**metadata, "sha256": "0" * 64}))
    header = _header(data)
    if len(header) > _MAX_HEADER:
        raise ValueError(f"{path}: names and notes must take at most {_MAX_HEADER} bytes, got {len(header)}")
    at = 8 + _find_digest(header)
    data[at : at + 64] = _digest(data, at)
    with whole_file(path) as file:
        file.write(data)


def load_tensors(
    path: str | os.PathLike[str],
    check: Callable[[dict[str, str], dict[str, tuple[int, ...]]], None] | None = None,
    *,
    checksum: bool = True,
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Load a file of :func:`save_tensors`, after its checksum has been verified.

    Args:
        path: file to read.
        check: function of the metadata and the shapes by name, called before the tensors are allocated.
        checksum: False accepts a file of another program, which has no checksum; one that is present is verified.

    Returns:
        The tensors and the metadata without ``sha256``.

    Raises:
        ValueError: if the file cannot be read, has no checksum or is damaged.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
        header = _header(data)
        at = 8 + _find_digest(header) if checksum or _FIELD.search(header) else None
        if at is not None and data[at : at + 64] != _digest(data, at):
            raise ValueError("sha256 does not match the contents: the file is damaged")
        metadata, shapes = _parse(header, has_metadata=at is not None)
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable_file(path, error) from error
    if check is not None:
        check(metadata, shapes)
    try:
        return load(data), metadata
    except Exception as error:  # a forged file can make the parser raise anything
        raise unreadable_file(path, error) from error


def _digest(data: bytes | bytearray, at: int) -> bytes:
    """SHA-256 of a file whose digits at position ``at`` count as zeros."""
    view = memoryview(data)
    digest = hashlib.sha256(view[:at])
    digest.update(b"0" * 64)
    digest.update(view[at + 64 :])
    return digest.hexdigest().encode()


def _header(data: bytes | bytearray) -> bytes:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError("it is not a safetensors file, or is cut short")
    return bytes(data[8 : 8 + length]) if length <= _MAX_HEADER else bytes(data[8 : 8 + _MAX_HEADER + 1])


def _find_digest(header: bytes) -> int:
    found = list(_FIELD.finditer(header))
    if len(found) != 1:
        raise ValueError("it has no sha256 in its metadata: it is damaged, or was not written by this package")
    return found[0].start(1)


def _parse(header: bytes, *, has_metadata: bool) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
    """Return the metadata and the shapes."""
    if len(header) > _MAX_HEADER:
        raise ValueError(f"its header has more than {_MAX_HEADER} bytes")
    table = json.loads(header, object_pairs_hook=_without_repeats)
    if not isinstance(table, dict):
        raise ValueError("its header is not a table of tensors")
    metadata = table.pop("__metadata__", None if has_metadata else {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError("its metadata are not texts")
    metadata.pop("sha256", None)
    shapes = {}
    for name, entry in table.items():
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if not isinstance(shape, list) or not all(type(size) is int and 1 <= size < 2**62 for size in shape):
            raise ValueError(f"tensor {name[:80]!r} has no valid shape: sizes must be whole numbers from 1")
        shapes[name] = tuple(shape)
    return metadata, shapes


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("its header has a name twice")
    return table
