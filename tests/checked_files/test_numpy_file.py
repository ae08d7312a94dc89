"""Arrays of .npz files, without pickle and without more memory than the file has."""

import io
import struct
import zipfile

import numpy as np
import pytest

from torch_softucb.checked_files.numpy_file import load_arrays


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "i4", "u8", "?"])
def test_every_dtype_and_order_comes_back(dtype, tmp_path):
    value = np.arange(6).reshape(2, 3).astype(dtype)
    np.savez(tmp_path / "a.npz", plain=value, fortran=np.asfortranarray(value), number=value[1, 1], empty=value[:0])
    back = load_arrays(tmp_path / "a.npz")
    assert list(back) == ["plain", "fortran", "number", "empty"]
    assert np.array_equal(back["plain"], value)
    assert np.array_equal(back["fortran"], value)
    assert back["number"] == value[1, 1]
    assert back["empty"].shape == (0, 3)
    assert all(array.dtype.isnative and array.flags.writeable for array in back.values())


def _npy(shape, dtype, data):
    header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def _zip(path, records, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in records:
            archive.writestr(name, data)


@pytest.mark.parametrize(
    ("records", "match"),
    [
        ([("a.npy", _npy((2**40,), "<f8", b""))], "'a.npy' has 0 bytes, which does not fit its shape"),
        ([("a.npy", _npy((-1, -1), "<f8", bytes(8)))], "does not fit its shape"),
        ([("a.npy", _npy((1,), "|O", bytes(8)))], "must hold numbers or bools, got object"),
        ([("a.npy", _npy((1,), "<U2", bytes(8)))], "must hold numbers or bools, got <U2"),
        ([("a.npy", b"something else")], "'a.npy' is not an array of numpy.savez"),
        ([("a.npy", b"")], "'a.npy' is not an array of numpy.savez"),
        ([("a.npy", _npy("__import__('os')", "<f8", b""))], "'a.npy' is not an array of numpy.savez"),
    ],
)
def test_hostile_records_are_refused(records, match, tmp_path):
    _zip(tmp_path / "a.npz", records)
    with pytest.raises(ValueError, match=match):
        load_arrays(tmp_path / "a.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_other_files_are_refused(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(10))
    with pytest.raises(ValueError, match=r"it is compressed; write it with numpy.savez"):
        load_arrays(tmp_path / "a.npz")
    _zip(tmp_path / "a.npz", [("a.npy", _npy((0,), "<f8", b""))] * 2)
    with pytest.raises(ValueError, match="has an array twice"):
        load_arrays(tmp_path / "a.npz")
    np.savez(tmp_path / "object.npz", a=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="must hold numbers or bools, got object"):
        load_arrays(tmp_path / "object.npz")
    with pytest.raises(ValueError, match="No such file"):
        load_arrays(tmp_path / "nowhere.npz")


def test_every_cut_is_refused(tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, a=np.arange(4.0))
    whole = buffer.getvalue()
    for length in range(len(whole)):
        (tmp_path / "a.npz").write_bytes(whole[:length])
        with pytest.raises(ValueError):  # noqa: PT011
            load_arrays(tmp_path / "a.npz")
