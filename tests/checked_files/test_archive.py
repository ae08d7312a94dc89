"""Archives that plain torch would load at any price in memory are refused for what they declare."""

import io
import zipfile

import pytest
import torch

from torch_softucb.checked_files.archive import check_archive


def _saved(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer


def _rewritten(change, compression=zipfile.ZIP_STORED):
    """An archive of torch.save with other records."""
    records = {}
    with zipfile.ZipFile(_saved({"x": torch.zeros(1000)})) as old:
        records = {name: old.read(name) for name in old.namelist()}
    change(records)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as new:
        for name, data in records.items():
            new.writestr(name, data)
    return buffer


def test_what_torch_saves_is_accepted():
    check_archive(_saved({"x": torch.zeros(1000), "y": [1, 2.0, "z"]}))
    check_archive(_rewritten(lambda records: None))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda r: r.update({"archive/code/x.py": b"print()"}), "unknown record 'archive/code/x.py'"),
        (lambda r: r.update({"other/version": b"3"}), "not an archive of torch.save"),
        (lambda r: r.pop("archive/data.pkl"), "not an archive of torch.save"),
        (lambda r: r.pop("archive/data/0"), "declares 4000 bytes for storage '0', which differs"),
        (lambda r: r.update({"archive/data/0": b"1"}), "declares 4000 bytes for storage '0', which differs"),
        (lambda r: r.update({"archive/data.pkl": bytes(9 << 20)}), "more than 8388608"),
        (lambda r: r.update({"archive/data.pkl": b""}), "its pickle|not a|pickle exhausted"),
    ],
)
def test_other_records_are_refused(change, match):
    with pytest.raises(ValueError, match=match):
        check_archive(_rewritten(change))


def test_compressed_records_are_refused():
    with pytest.raises(ValueError, match="is compressed"):
        check_archive(_rewritten(lambda records: None, zipfile.ZIP_DEFLATED))


def test_a_record_that_declares_more_than_the_file_holds_is_refused():
    data = bytearray(_saved({"x": torch.zeros(1000)}).getvalue())
    entry = data.index(b"archive/data/0", data.index(b"PK\x01\x02")) - 46
    for field in (20, 24):  # compressed and uncompressed size
        data[entry + field : entry + field + 4] = (2**31).to_bytes(4, "little")
    with pytest.raises(ValueError, match="more bytes than the file has"):
        check_archive(io.BytesIO(data))


@pytest.mark.parametrize("data", [b"", b"text", b"PK\x03\x04", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_archive_is_refused(data):
    with pytest.raises(ValueError, match=r"not an archive of torch\.save"):
        check_archive(io.BytesIO(data))
