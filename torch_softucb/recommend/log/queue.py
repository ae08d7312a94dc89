"""Entries of a decision log that are not durable yet."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from torch_softucb.recommend.log.codec import Entry, encode_decisions


class Queued(NamedTuple):
    """What one call has added to a log.

    Attributes:
        entry: decisions, which are encoded at the commit so that several calls share a record; or a record of rewards.
        ids: ids of the decisions, empty for rewards.
        rows: number of decisions or rewards.
        ticket: number of decisions and rewards added since the log was opened, this call included.
    """

    entry: Entry | bytes
    ids: list[int]
    rows: int
    ticket: int


def encoded(queue: Sequence[Queued]) -> Iterator[bytes]:
    """Yield the records of a commit; consecutive decisions of the same layout share one."""

    def layout(queued: Queued) -> tuple[Any, ...] | None:
        return queued.entry.layout if isinstance(queued.entry, Entry) else None

    for _, run in groupby(queue, layout):
        entries: list[Entry] = []
        for queued in run:
            if isinstance(queued.entry, Entry):
                entries.append(queued.entry)
            else:
                yield queued.entry
        if entries:
            yield encode_decisions(entries)
