"""Check a file of :func:`torch.save` before it is loaded, without running or allocating what it declares.

``torch.load(weights_only=True)`` runs no code from a file, but it allocates what the file declares: a compressed archive, a
tensor of 2^40 elements or ``bytearray(10**12)`` in a small file exhaust the memory. Here the archive's records must be
stored uncompressed and fit into the file, and the pickle may build nothing but dicts, lists, tuples, numbers, texts and
dense tensors whose storages have exactly the size of their record.
"""

import re
import zipfile
from typing import BinaryIO

from torch_softucb.checked_files.pickle_checks import check_pickle

_RECORD = re.compile(r"[^/]*/(data\.pkl|data/\d+|byteorder|version|\.format_version|\.storage_alignment|\.data/[\w.]+)")
_MAX_PICKLE = 8 << 20  # bytes; 1,000 tensors take about 150 kB
_MAX_RECORDS = 100_000


def check_archive(file: BinaryIO) -> None:
    """Raise ValueError, with a reason, unless the file is an archive of :func:`torch.save` that is safe to load.

    Args:
        file: the archive, open for reading.
    """
    size = file.seek(0, 2)
    try:
        with zipfile.ZipFile(file) as archive:
            records = {entry.filename: entry for entry in archive.infolist()}
            if len(records) < len(archive.infolist()) or len(records) > _MAX_RECORDS:
                raise ValueError("the archive has a record twice, or too many")
            for name, entry in records.items():
                if not _RECORD.fullmatch(name):
                    raise ValueError(f"the archive has an unknown record {name[:80]!r}")
                if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                    raise ValueError(f"record {name[:80]!r} is compressed; torch.save stores records as they are")
            if sum(entry.file_size for entry in records.values()) > size:
                raise ValueError("the records declare more bytes than the file has")
            prefixes = {name.split("/", 1)[0] for name in records}
            if len(prefixes) != 1 or f"{min(prefixes)}/data.pkl" not in records:
                raise ValueError("it is not an archive of torch.save")
            (prefix,) = prefixes
            record = records[f"{prefix}/data.pkl"]
            if record.file_size > _MAX_PICKLE:
                raise ValueError(f"its pickle has {record.file_size} bytes, more than {_MAX_PICKLE}")
            data = archive.read(record)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"it is not an archive of torch.save: {error}") from error
    start = f"{prefix}/data/"
    check_pickle(data, {name[len(start) :]: e.file_size for name, e in records.items() if name.startswith(start)})
