"""Frames of a journal in memory."""

import struct
import zlib
from pathlib import Path

import pytest

from torch_softucb.recommend import JournalError
from torch_softucb.recommend.log.frames import (
    DamagedJournal,
    frame_at,
    frame_places,
    header_size,
    pack_close,
    pack_group,
    pack_header,
    parse,
    possible_headers,
    whole_group,
)

PATH = Path("a.journal")
LOG = bytes(range(16))


def _journal(groups=3, close=True):
    """Return a journal of so many groups of two records, and the ends of its frames."""
    data = pack_header(LOG, 7)
    end = parse(data, PATH).end
    ends = [end]
    for number in range(groups):
        frame, end = pack_group(end, [b"record %d" % number, b"x" * number])
        data += frame
        ends.append(end)
    if close:
        frame, end = pack_close(end)
        data += frame
        ends.append(end)
    return data, ends


def test_the_bytes_are_those_of_this_format():
    """Recorded once. If this fails, logs that exist cannot be read: give the new format another magic."""
    data, _ = _journal(groups=1)
    assert data.hex() == (
        "534f465455434232" "000102030405060708090a0b0c0d0e0f" "07000000" "0fe0dca3"  # magic, log, segment, checksum
        "ab475250" "00000000" "02000000" "10000000" "0fe0dca3" "a64351f8" "be8706ea"  # mark, number, records, length, ...
        "08000000" "7265636f72642030" "00000000"
        "ab475243" "01000000" "02000000" "00000000" "be8706ea" "00000000" "5303920b"  # the closing frame
    )  # fmt: skip


def test_records_come_back_with_what_is_known_about_the_end():
    data, ends = _journal()
    contents = parse(data + bytes(100), PATH)
    assert (contents.log, contents.segment, contents.torn) == (LOG, 7, b"")
    assert [[bytes(record) for record in group] for group in contents.groups] == [
        [b"record 0", b""],
        [b"record 1", b"x"],
        [b"record 2", b"xx"],
    ]
    assert contents.end == ends[-1]
    assert (contents.end.records, contents.end.frames, contents.end.closed, contents.end.size) == (6, 4, True, len(data))
    assert not parse(data[: ends[3].size], PATH).end.closed


def test_a_cut_keeps_every_whole_frame_and_reports_the_rest():
    data, ends = _journal(close=False)
    for cut in range(ends[0].size, len(data)):
        contents = parse(data[:cut], PATH)
        assert contents.end == max(end for end in ends if end.size <= cut)
        assert contents.torn == data[contents.end.size : cut].rstrip(b"\0")
    for cut in range(ends[0].size):
        with pytest.raises(JournalError, match=r"a\.journal: (does not begin|its header is damaged)"):
            parse(data[:cut], PATH)


def test_every_flipped_bit_of_a_closed_journal_is_noticed():
    data, ends = _journal()
    want = parse(data, PATH).groups
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        if bit // 8 < ends[-2].size:
            with pytest.raises(JournalError, match=r"a\.journal"):
                parse(bytes(flipped), PATH)
            continue
        contents = parse(bytes(flipped), PATH)  # the closing frame
        assert contents.torn
        assert not contents.end.closed
        assert contents.groups == want


def test_removed_inserted_and_repeated_bytes_are_damage():
    data, ends = _journal(groups=6)
    for at in range(ends[0].size, ends[-2].size):
        for size in (1, 5, 60):
            if at + size < ends[-2].size:
                with pytest.raises(DamagedJournal, match="damaged or missing though later ones follow"):
                    parse(data[:at] + data[at + size :], PATH)
            with pytest.raises(DamagedJournal):
                parse(data[:at] + b"\1" * size + data[at:], PATH)
    with pytest.raises(DamagedJournal) as damage:
        parse(data[: ends[3].size] + data[ends[2].size :], PATH)  # a frame twice
    assert damage.value.at == ends[3].size


def test_a_closing_frame_with_another_count_is_damage():
    data, ends = _journal(close=False)
    frame, _ = pack_close(ends[-1]._replace(records=5))
    with pytest.raises(DamagedJournal):
        parse(data + frame, PATH)


@pytest.mark.parametrize(("group", "records"), [(b"\5\0\0\0abc", 1), (b"\3\0\0\0abc", 2), (b"\3\0\0", 1), (b"", 1)])
def test_a_group_whose_lengths_do_not_add_up_is_refused(group, records):
    """Its checksums are right: somebody made it."""
    header = pack_header(LOG, 7)
    end = parse(header, PATH).end
    fields = struct.pack("<4sIIIII", b"\xabGRP", 0, records, len(group), end.checksum, zlib.crc32(group))
    data = header + fields + struct.pack("<I", zlib.crc32(fields, end.header)) + group
    with pytest.raises(JournalError, match=f"the group at byte {end.size} does not hold the records that it declares"):
        parse(data, PATH)


def test_frames_can_be_found_without_their_predecessors():
    data, ends = _journal()
    header = ends[0].header
    assert header in possible_headers(data)
    assert header_size(data, PATH) == ends[0].size
    places = list(frame_places(data, 0, len(data), header))
    assert places == [end.size for end in ends[:-1]]
    assert frame_at(data, places[1], header).records == 2
    assert frame_at(data, places[1] + 1, header) is None
    records, end = whole_group(data, places[1], len(data), PATH, header)
    assert ([bytes(record) for record in records], end) == ([b"record 1", b"x"], places[2])
    for at, stop in ((places[1], places[2] - 1), (places[1] + 1, len(data))):
        with pytest.raises(JournalError, match=f"the group at byte {at}, with .* is damaged"):
            whole_group(data, at, stop, PATH, header)


def test_frames_of_another_journal_do_not_count():
    data, ends = _journal()
    other = pack_header(LOG, 8)
    assert not list(frame_places(data, 0, len(data), parse(other, PATH).end.header))
    assert parse(other + data[ends[0].size :], PATH).end.records == 0
