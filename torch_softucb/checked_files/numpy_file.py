"""Arrays of a ``.npz`` file, read without pickle and without allocating more than the file holds."""

import io
import math
import os
import zipfile
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_TYPES = (np.floating, np.integer, np.bool_)


def load_arrays(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Load the arrays of a file of :func:`numpy.savez`.

    Records must be stored uncompressed, as ``numpy.savez`` writes them, so that a small file cannot take much memory.

    Args:
        path: file to read.

    Returns:
        Arrays of numbers or bools by name, in the byte order of this machine.

    Raises:
        ValueError: the file cannot be read, is compressed, or holds anything but numbers and bools; the message is the
            reason, without the path.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/arrays.npz"
        >>> np.savez(path, means=np.array([0.5, 1.0]))
        >>> load_arrays(path)
        {'means': array([0.5, 1. ])}
    """
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if len({entry.filename for entry in entries}) < len(entries):
                raise ValueError("it has an array twice")
            if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
                raise ValueError("it is compressed; write it with numpy.savez")
            if sum(entry.file_size for entry in entries) > os.fstat(file.fileno()).st_size:
                raise ValueError("its arrays declare more bytes than the file has")
            return {entry.filename.removesuffix(".npy"): _array(entry.filename, archive.read(entry)) for entry in entries}
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, OverflowError, RuntimeError) as error:
        raise ValueError(str(error)) from error


def _array(name: str, data: bytes) -> NDArray[Any]:
    stream = io.BytesIO(data)
    try:
        shape, fortran, dtype = _HEADERS[npy.read_magic(stream)](stream)
    except (KeyError, ValueError, EOFError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"{name[:80]!r} is not an array of numpy.savez") from error
    if not any(np.issubdtype(dtype, each) for each in _TYPES):
        raise ValueError(f"{name[:80]!r} must hold numbers or bools, got {dtype}")
    values = stream.read()
    if min(shape, default=1) < 0 or math.prod(shape) * dtype.itemsize != len(values):
        raise ValueError(f"{name[:80]!r} has {len(values)} bytes, which does not fit its shape {shape} of {dtype}")
    array = np.frombuffer(values, dtype).reshape(shape, order="F" if fortran else "C")
    return np.array(array, dtype=dtype.newbyteorder("="), order="C")
