"""Pickles that would call, allocate or hang are refused without running them."""

import pickle

import pytest

from torch_softucb.checked_files.pickle_checks import check_pickle

STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ"  # 4 floats, key 0
HOOKS = b"ccollections\nOrderedDict\n)R"


def _tensor(size, stride, offset=b"K\0"):
    """Pickle of a tensor over the storage above."""
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE + offset + size + stride + b"\x89" + HOOKS + b"tR."


def _int(n):
    return b"\x8a\x08" + n.to_bytes(8, "little", signed=True)


def test_plain_data_and_tensors_are_accepted():
    check_pickle(pickle.dumps({"a": [1, 2.0, None, (True, "x")], 3: {}}, protocol=2), {})
    check_pickle(_tensor(b"K\x04\x85", b"K\x01\x85"), {"0": 16})
    check_pickle(_tensor(b"K\x02K\x02\x86", b"K\x02K\x01\x86"), {"0": 16})
    check_pickle(_tensor(b"K\0\x85", b"K\x01\x85"), {"0": 16})


@pytest.mark.parametrize(
    "data",
    [
        _tensor(b"K\x05\x85", b"K\x01\x85"),
        _tensor(b"K\x04\x85", b"K\x02\x85"),
        _tensor(b"K\x04\x85", b"K\x01\x85", offset=b"K\x01"),
        _tensor(_int(2**40) + b"\x85", b"K\0\x85"),
        _tensor(_int(-1) + b"\x85", b"K\x01\x85"),
        _tensor(b"K\x04\x85", _int(-1) + b"\x85"),
        _tensor(b"K\x04\x85", b")"),
        _tensor(b"N", b"N"),
    ],
)
def test_tensors_that_do_not_fit_their_storage_are_refused(data):
    with pytest.raises(ValueError, match="its pickle has a tensor of"):
        check_pickle(data, {"0": 16})


def test_storages_that_do_not_fit_their_record_are_refused():
    for records in ({}, {"0": 15}, {"0": 17}, {"1": 16}):
        with pytest.raises(ValueError, match="declares 16 bytes for storage '0'"):
            check_pickle(_tensor(b"K\x04\x85", b"K\x01\x85"), records)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.",
        b"\x80\x02cbuiltins\nbytearray\nJ\0\0\0\x7f\x85R.",
        b"\x80\x02ctorch\nFloatStorage\nJ\0\0\0\x7f\x85R.",
        b"\x80\x02ctorch\nfloat32\n)R.",
        b"\x80\x02ctorch._utils\n_rebuild_sparse_tensor\n)R.",
        b"\x80\x02ctorch._utils\n_rebuild_meta_tensor_no_storage\n)R.",
        b"\x80\x02ios\nsystem\n.",
        b"\x80\x02" + HOOKS + b"}X\x05\0\0\0itemsK\x01sb.",  # attribute `items` of a dict
        b"\x80\x02" + HOOKS + b"K\x01b.",
        b"\x80\x02}(K\x01K\x02\x86K\x03u.",  # a tuple as key
        b"\x80\x02]K\x01K\x02s.",
        b"\x80\x02}K\x01a.",
        b"\x80\x02(K\x01.",
        b"\x80\x02.",
        b"\x80\x02K\x01K\x02.",
        b"\x80\x02h\x05.",
        b"\x80\x02R.",
        b"\x80\x02t.",
        b"\x80\x02K\x01Q.",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x02\xff.",
        b"\x80\x02K\x01",
        b"",
    ],
)
def test_everything_else_is_refused(data):
    with pytest.raises(ValueError, match=r"pickle|opcode|expected"):
        check_pickle(data, {"0": 16})


def test_many_objects_in_few_bytes_are_refused():
    for data in (b"}" * 2_000_000, b"\x80\x02ccollections\nOrderedDict\nq\x00" + b"h\x00)R" * 500_000):
        with pytest.raises(ValueError, match="would take more than 40 MB"):
            check_pickle(data + b".", {})


def test_nested_tuples_that_repeat_themselves_take_no_time():
    data = b"\x80\x02K\x01" + b"".join(b"q\x00h\x00\x86" for _ in range(200)) + b"."
    check_pickle(data, {})
    with pytest.raises(ValueError, match="has a key of type tuple"):
        check_pickle(data[:-1] + b"q\x01}h\x01K\x01s.", {})
