"""The journal: whole records or none."""

import os
import struct
import threading
import time
import warnings

import pytest

from torch_softucb.errors import LogWarning
from torch_softucb.recommend import JournalError
from torch_softucb.recommend.log import journal as module
from torch_softucb.recommend.log.journal import Journal, read_journal

LOG = bytes(range(16))


def _open(path, **settings):
    return Journal(path, log=LOG, segment=1, **settings)


def _written(path, count=100, group=8, close=True):
    """Write numbered records; returns the sizes of the file after each commit."""
    journal = _open(path)
    sizes = [journal.end.size]
    for begin in range(0, count, group):
        numbers = range(begin, min(begin + group, count))
        journal.commit([struct.pack("<q", i) * (i % 7 + 1) for i in numbers], ticket=numbers[-1])
        sizes.append(journal.end.size)
    (journal.close if close else journal.release)()
    return sizes


def _numbers(path):
    return [struct.unpack_from("<q", record)[0] for group in read_journal(path).groups for record in group]


def test_records_come_back_in_order(tmp_path):
    _written(tmp_path / "a.journal")
    assert _numbers(tmp_path / "a.journal") == list(range(100))
    end = read_journal(tmp_path / "a.journal").end
    assert (end.records, end.closed, end.size) == (100, True, (tmp_path / "a.journal").stat().st_size)


def test_a_journal_goes_on_after_its_closing_mark(tmp_path):
    path = tmp_path / "a.journal"
    _written(path, count=10)
    journal = _open(path)
    assert journal.ticket == 0
    journal.commit([struct.pack("<q", 10)], ticket=1)
    assert journal.ticket == 1
    journal.finish()
    journal.commit([struct.pack("<q", 11)], ticket=2)
    journal.close()
    journal.close()
    assert _numbers(path) == list(range(12))
    assert read_journal(path).end.closed


def test_a_cut_below_what_is_durable_is_refused(tmp_path):
    path = tmp_path / "a.journal"
    sizes = _written(path)
    data = path.read_bytes()
    for cut in (sizes[3], sizes[-1], len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(JournalError, match=f"but {len(data)} were durable; it has lost its end"):
            _open(path, durable=len(data))
        assert path.read_bytes() == data[:cut]


def test_every_torn_end_is_reported_and_kept_aside(tmp_path):
    path, kept = tmp_path / "a.journal", []
    for turn in range(3):
        sizes = _written(path, count=8, close=False)
        data = bytearray(path.read_bytes())
        start = sizes[0]
        data[start + 40 + turn] ^= 1  # in the last group
        path.write_bytes(bytes(data))
        with pytest.warns(LogWarning, match=rf"cut off: \d+ bytes after byte {start}, 8 records, were moved to"):
            journal = _open(path)
        journal.commit([b"after-%d" % turn], ticket=0)
        journal.release()
        kept.append(bytes(data[start : sizes[1]]).rstrip(b"\0"))
    assert [bytes(record) for group in read_journal(path).groups for record in group] == [b"after-0", b"after-1", b"after-2"]
    torn = [path.with_suffix(suffix) for suffix in (".torn", ".1.torn", ".2.torn")]
    assert [file.read_bytes() for file in torn] == kept
    assert {file.stat().st_mode & 0o777 for file in torn} == {0o600}


def test_a_torn_end_is_not_written_through_a_link(tmp_path):
    path, victim = tmp_path / "a.journal", tmp_path / "victim"
    victim.write_text("mine")
    path.with_suffix(".torn").symlink_to(victim)
    sizes = _written(path, count=8, close=False)
    with open(path, "r+b") as file:
        file.truncate(sizes[1] - 1)
    with pytest.warns(LogWarning, match=r"a\.1\.torn"):
        _open(path).release()
    assert victim.read_text() == "mine"


def test_damage_in_the_middle_is_no_torn_end(tmp_path):
    path = tmp_path / "a.journal"
    sizes = _written(path)
    whole = path.read_bytes()
    at, after = sizes[2], sizes[3]
    changes = {
        "a flipped bit": whole[: at + 20] + bytes([whole[at + 20] ^ 1]) + whole[at + 21 :],
        "bytes removed": whole[: at + 40] + whole[at + 43 :],
        "bytes inserted": whole[: at + 40] + b"xyz" + whole[at + 40 :],
        "a group removed": whole[:at] + whole[after:],
        "a group twice": whole[:after] + whole[at:],
        "zeros": whole[:at] + bytes(after - at) + whole[after:],
        "four zeros": whole[:at] + bytes(4) + whole[at + 4 :],
        "the last group": whole[: sizes[-1] - 3] + b"x" + whole[sizes[-1] - 2 :],  # the closing mark shows it
    }
    for name, data in changes.items():
        path.write_bytes(data)
        for read in (lambda: read_journal(path), lambda: _open(path)):
            with pytest.raises(JournalError, match=r"damaged or missing though later ones follow .* salvage_log"):
                read()
        assert path.read_bytes() == data, name
        assert not [*tmp_path.glob("*.torn")]


def test_what_is_no_journal_of_this_log_is_refused(tmp_path):
    path = tmp_path / "a.journal"
    path.write_bytes(b"something else")
    with pytest.raises(JournalError, match="does not begin as a journal does"):
        _open(path)
    path.write_bytes(b"SOFTUCB2")
    with pytest.raises(JournalError, match="its header is damaged"):
        _open(path)
    path.unlink()
    _written(path)
    for settings in ({"log": bytes(16), "segment": 1}, {"log": LOG, "segment": 2}):
        with pytest.raises(JournalError, match=r"is segment 1 of log 000102.*files of several logs were mixed"):
            Journal(path, **settings)


def test_many_lying_marks_are_read_in_linear_time(tmp_path):
    path = tmp_path / "a.journal"
    sizes = _written(path, count=8, close=False)
    head = path.read_bytes()[: sizes[1]]
    lie = struct.pack("<4sIIIIII", b"\xabGRP", 1, 1, 700_000, 0, 0, 0)
    seconds = []
    for count in (10_000, 40_000):
        path.write_bytes(head + lie * count)
        begin = time.perf_counter()
        assert len(read_journal(path).torn) > 0
        seconds.append(time.perf_counter() - begin)
    assert seconds[1] < 1.5  # 6.5 s when each mark was followed to the end of the file


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_failed_write_closes_the_journal_for_good(call, tmp_path, monkeypatch):
    path = tmp_path / "a.journal"
    journal = _open(path)
    journal.commit([b"first"], ticket=1)

    def fails(*_):
        raise OSError(28, "ENOSPC")

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(OSError, match="ENOSPC"):
        journal.commit([b"second"], ticket=2)
    monkeypatch.undo()
    assert journal.failure.errno == 28
    assert (journal.ticket, journal.end.records, journal.closed) == (1, 1, True)
    for _ in range(2):
        with pytest.raises(JournalError, match="a write to it has failed; open it again"):
            journal.commit([b"second"], ticket=2)


def test_an_exception_of_a_signal_is_undone_by_the_next_commit(tmp_path, monkeypatch):
    path = tmp_path / "a.journal"
    journal = _open(path)
    journal.commit([b"first"], ticket=1)
    real = os.fdatasync

    def interrupted(handle):
        real(handle)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fdatasync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        journal.commit([b"a longer second one" * 9], ticket=2)
    monkeypatch.undo()
    assert journal.ticket == 1
    journal.commit([b"second"], ticket=2)
    journal.close()
    assert [bytes(record) for group in read_journal(path).groups for record in group] == [b"first", b"second"]


def test_the_last_frame_is_written_again_when_a_journal_is_opened(tmp_path, monkeypatch):
    """After a failed sync the system may show data that never reached the disk."""
    path = tmp_path / "a.journal"
    sizes = _written(path, close=False)
    last, real, written = path.read_bytes()[sizes[-2] : sizes[-1]], os.pwrite, []
    monkeypatch.setattr(os, "pwrite", lambda handle, data, at: written.append((at, bytes(data))) or real(handle, data, at))
    _open(path).release()
    assert (sizes[-2], last) in written
    assert _numbers(path) == list(range(100))


def test_a_read_that_misses_a_frame_and_sees_the_next_is_repeated(tmp_path, monkeypatch):
    path = tmp_path / "a.journal"
    sizes = _written(path, count=32)
    whole = path.read_bytes()
    early = whole[: sizes[1]] + bytes(sizes[2] - sizes[1]) + whole[sizes[2] :]  # page by page, while two commits were made
    reads = iter([early])
    monkeypatch.setattr(module.Path, "read_bytes", lambda _: next(reads))
    assert len(read_journal(path).groups) == 4


def test_a_reader_beside_a_writer_never_sees_damage(tmp_path):
    path = tmp_path / "a.journal"
    journal, stop, reads = _open(path), threading.Event(), 0

    def write():
        ticket = 0
        while not stop.is_set():
            ticket += 1
            journal.commit([struct.pack("<q", ticket) * (1 + ticket * 37 % 700)], ticket)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        last = 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                numbers = _numbers(path)
                assert numbers == list(range(1, len(numbers) + 1))
                assert len(numbers) >= last
                last, reads = len(numbers), reads + 1
    finally:
        stop.set()
        writer.join()
        journal.release()
    assert reads > 10


def test_a_commit_does_not_change_the_size_of_the_file(tmp_path):
    """Space is reserved ahead, so that a commit has to sync data only."""
    path = tmp_path / "a.journal"
    journal = _open(path)
    size = path.stat().st_size
    for ticket in range(1, 20):
        journal.commit([bytes(1000)], ticket)
        assert path.stat().st_size == size
    journal.commit([bytes(size)], 20)  # longer than what is reserved
    assert path.stat().st_size > journal.end.size
    journal.close()
    assert path.stat().st_size == journal.end.size
    assert sum(len(record) for group in read_journal(path).groups for record in group) == 19_000 + size


def test_a_journal_of_which_only_the_header_is_left_has_not_been_closed(tmp_path):
    path = tmp_path / "a.journal"
    journal = _open(path)
    header = journal.end.size
    journal.close()
    assert read_journal(path).end.closed
    path.write_bytes(path.read_bytes()[:header])
    assert not read_journal(path).end.closed
