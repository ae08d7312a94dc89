"""The bytes of a journal: a header, then frames, each with a group of records.

A frame names its number, the checksum of the frame before it, and the checksums of its group and of itself. So a whole frame
can be recognised anywhere in the file, and bytes that were removed or inserted break the chain. A closing frame has no group
and names the number of all records before it; the writer may continue after it. Unused space at the end is zero.

A frame is written only after the one before it is durable. So a damaged frame with intact fields of another behind it was
damaged later, and one with nothing behind it is the last one, whose commit may never have returned.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from torch_softucb.errors import JournalError

_HEADER = struct.Struct("<8s16sII")  # magic, id of the log, number of the segment, checksum
_FRAME = struct.Struct("<4sIIIIII")  # the fields of Frame
_LENGTH = struct.Struct("<I")  # before each record
_MAGIC = b"SOFTUCB2"
_MARK = b"\xabGR"
_GROUP, _CLOSE = _MARK + b"P", _MARK + b"C"


class Frame(NamedTuple):
    """The fields before a group.

    Attributes:
        mark: type of the frame.
        number: number of frames before it.
        records: number of records in the group; for a closing frame, in the whole journal.
        length: bytes of the group.
        previous: checksum of the frame before it; for the first, of the header.
        group: checksum of the group.
        checksum: checksum of the fields above, which depends on the header.
    """

    mark: bytes
    number: int
    records: int
    length: int
    previous: int
    group: int
    checksum: int


class End(NamedTuple):
    """The end of a journal, where the next frame continues.

    Attributes:
        size: bytes up to here.
        frames: frames up to here.
        records: records up to here.
        checksum: checksum of the last frame; without frames, of the header.
        closed: whether the last frame is a closing one.
        header: checksum of the header.
        last: where the last frame begins.
    """

    size: int
    frames: int
    records: int
    checksum: int
    closed: bool
    header: int
    last: int


class Contents(NamedTuple):
    """A journal in memory.

    Attributes:
        log: id of the log.
        segment: number of the segment.
        groups: the records of each group.
        end: end of the last whole frame.
        torn: what follows, without zeros at its end; empty unless a commit was cut off.
    """

    log: bytes
    segment: int
    groups: list[list[memoryview]]
    end: End
    torn: bytes


class DamagedJournal(JournalError):
    """A frame is damaged or missing though later ones are there.

    Attributes:
        at: byte where the damage begins.
    """

    def __init__(self, text: str, at: int = 0) -> None:
        super().__init__(text)
        self.at = at


def pack_header(log: bytes, segment: int) -> bytes:
    """Return the header of a journal: the id of its log, 16 bytes, and its segment number."""
    fields = _HEADER.pack(_MAGIC, log, segment, 0)[:-4]
    return fields + struct.pack("<I", zlib.crc32(fields))


def pack_group(end: End, records: Sequence[bytes]) -> tuple[bytes, End]:
    """Return the frame that continues a journal with a group of records, and the end after it."""
    group = b"".join(part for record in records for part in (_LENGTH.pack(len(record)), record))
    return _pack(end, _GROUP, len(records), group)


def pack_close(end: End) -> tuple[bytes, End]:
    """Return the frame that closes a journal, and the end after it."""
    return _pack(end, _CLOSE, end.records, b"")


def _pack(end: End, mark: bytes, records: int, group: bytes) -> tuple[bytes, End]:
    fields = _FRAME.pack(mark, end.frames, records, len(group), end.checksum, zlib.crc32(group), 0)[:-4]
    frame = Frame(*_FRAME.unpack(fields + struct.pack("<I", zlib.crc32(fields, end.header))))
    return _FRAME.pack(*frame) + group, _after(end, frame)


def _after(end: End, frame: Frame) -> End:
    closed = frame.mark == _CLOSE
    records = end.records + (0 if closed else frame.records)
    size = end.size + _FRAME.size + frame.length
    return End(size, end.frames + 1, records, frame.checksum, closed, end.header, end.size)


def _parse_header(data: bytes, path: Path) -> tuple[bytes, int, End]:
    """Return the id of the log, the number of the segment, and the end of the header."""
    if data[: len(_MAGIC)] != _MAGIC:
        raise DamagedJournal(f"journal {path}: does not begin as a journal does; is this another file?")
    if len(data) < _HEADER.size or zlib.crc32(data[: _HEADER.size - 4]) != _HEADER.unpack_from(data)[3]:
        raise DamagedJournal(f"journal {path}: its header is damaged; restore the file, or read the rest with salvage_log")
    _, log, segment, checksum = _HEADER.unpack_from(data)
    return log, segment, End(_HEADER.size, 0, 0, checksum, False, checksum, _HEADER.size)


def parse(data: bytes, path: Path) -> Contents:
    """Return the contents of a journal.

    Raises:
        JournalError: if this is no journal; DamagedJournal if a frame is damaged or missing and later ones are not.
    """
    log, segment, end = _parse_header(data, path)
    groups, view = [], memoryview(data)
    stop = len(data.rstrip(b"\0"))
    while (frame := frame_at(data, end.size, end.header)) is not None:
        group = view[end.size + _FRAME.size : end.size + _FRAME.size + frame.length]
        if not _is_whole(frame, group):
            break
        if (frame.number, frame.previous) != (end.frames, end.checksum):
            raise _damaged(path, end.size, end.size)
        if frame.mark == _CLOSE and frame.records != end.records:
            raise _damaged(path, end.size, end.size)
        if frame.mark == _GROUP:
            groups.append(split_group(frame, group, path, end.size))
        end = _after(end, frame)
    later = next(frame_places(data, end.size + 1, stop, end.header), None)
    if later is not None:
        raise _damaged(path, end.size, later)
    return Contents(log, segment, groups, end, data[end.size : stop])


def _damaged(path: Path, at: int, later: int) -> DamagedJournal:
    return DamagedJournal(
        f"journal {path}: the records at byte {at} are damaged or missing though later ones follow at byte {later}; this is "
        "not a torn end: the file was changed; restore it from a copy, or read what is intact with salvage_log",
        at,
    )


def frame_at(data: bytes, at: int, header: int) -> Frame | None:
    """Return the fields of a frame at this position; None if there is none or they are damaged."""
    if at + _FRAME.size > len(data):
        return None
    frame = Frame(*_FRAME.unpack_from(data, at))
    intact = frame.mark in (_GROUP, _CLOSE) and frame.checksum == zlib.crc32(data[at : at + _FRAME.size - 4], header)
    return frame if intact else None


def frame_places(data: bytes, begin: int, stop: int, header: int) -> Iterator[int]:
    """Yield where frames with intact fields begin, between two positions; their groups are not checked."""
    at = data.find(_MARK, begin, stop)
    while at >= 0:
        if frame_at(data, at, header) is not None:
            yield at
        at = data.find(_MARK, at + 1, stop)


def header_size(data: bytes, path: Path) -> int:
    """Return the length of the header, which must be intact."""
    return _parse_header(data, path)[2].size


def possible_headers(data: bytes) -> list[int]:
    """Return the checksums that the frames may depend on if the header is damaged: the one it declares, and its own."""
    declared = [_HEADER.unpack_from(data)[3]] if len(data) >= _HEADER.size else []
    return [*declared, zlib.crc32(data[: _HEADER.size - 4])]


def whole_group(data: bytes, at: int, stop: int, path: Path, header: int) -> tuple[list[memoryview], int]:
    """Return the records of the frame at this position, and where it ends, which must not be beyond ``stop``."""
    frame = frame_at(data, at, header)
    group = memoryview(data)[at + _FRAME.size : at + _FRAME.size + frame.length] if frame else memoryview(b"")
    if frame is None or at + _FRAME.size + frame.length > stop or not _is_whole(frame, group):
        held = f"{frame.records} records" if frame else "unknown contents"
        raise DamagedJournal(f"the group at byte {at}, with {held}, is damaged", at)
    return split_group(frame, group, path, at), at + _FRAME.size + frame.length


def _is_whole(frame: Frame, group: memoryview) -> bool:
    return len(group) == frame.length and zlib.crc32(group) == frame.group


def split_group(frame: Frame, group: memoryview, path: Path, at: int) -> list[memoryview]:
    """Return the records of a group, whose lengths must add up to it."""
    records, place = [], 0
    while place + _LENGTH.size <= len(group):
        (size,) = _LENGTH.unpack_from(group, place)
        place += _LENGTH.size + size
        records.append(group[place - size : place])
    if place != len(group) or len(records) != (frame.records if frame.mark == _GROUP else 0):
        raise DamagedJournal(f"journal {path}: the group at byte {at} does not hold the records that it declares", at)
    return records
