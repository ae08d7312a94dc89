"""The journal: whole records or none."""

import struct

import pytest

from torch_softucb.recommend import JournalError
from torch_softucb.recommend.log.journal import Journal, records


def _written(path, count=100, group=8):
    with Journal(path) as journal:
        sizes = [journal.size]
        for i in range(count):
            journal.append(struct.pack("<q", i) * (i % 7 + 1))
            if i % group == group - 1:
                journal.commit()
                sizes.append(journal.size)
    return sizes


def test_records_come_back_in_order(tmp_path):
    _written(tmp_path / "a.journal")
    got = [struct.unpack_from("<q", record)[0] for record in records(tmp_path / "a.journal")]
    assert got == list(range(100))


def test_a_file_cut_anywhere_keeps_every_committed_group(tmp_path):
    path = tmp_path / "a.journal"
    sizes = _written(path)
    data = path.read_bytes()
    for cut in range(0, len(data), 3):
        path.write_bytes(data[:cut])
        whole = sum(size <= cut for size in sizes[1:])
        got = [struct.unpack_from("<q", record)[0] for record in records(path)]
        assert got[: 8 * whole] == list(range(8 * whole))
        assert len(got) == min(100, 8 * whole) or cut == len(data)


def test_a_torn_end_is_kept_aside_and_writing_goes_on(tmp_path):
    path = tmp_path / "a.journal"
    sizes = _written(path, count=16)
    data = bytearray(path.read_bytes())
    data[sizes[1] + 20] ^= 1  # in the last group
    path.write_bytes(bytes(data))
    with Journal(path) as journal:
        journal.append(b"after")
    assert [*records(path)][-1] == b"after"
    assert len([*records(path)]) == 9
    assert path.with_suffix(".torn").read_bytes() == bytes(data[sizes[1] :]).rstrip(b"\0")


def test_damage_in_the_middle_is_no_torn_end(tmp_path):
    path = tmp_path / "a.journal"
    sizes = _written(path)
    data = bytearray(path.read_bytes())
    data[sizes[2] + 20] ^= 1
    path.write_bytes(bytes(data))
    for read in (lambda: [*records(path)], lambda: Journal(path)):
        with pytest.raises(JournalError, match=f"the records at byte {sizes[2]} are damaged though whole ones follow"):
            read()
    path.write_bytes(b"something else")
    with pytest.raises(JournalError, match="does not begin as a journal does"):
        Journal(path)


@pytest.mark.parametrize("size", [4, 8, 700])
def test_zeroed_places_are_no_torn_end(size, tmp_path):
    path = tmp_path / "a.journal"
    sizes = _written(path, count=200)
    data = bytearray(path.read_bytes())
    data[sizes[3] : sizes[3] + size] = bytes(size)
    path.write_bytes(bytes(data))
    with pytest.raises(JournalError, match=f"the records at byte {sizes[3]} are damaged"):
        list(records(path))
