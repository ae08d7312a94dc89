"""The decision ids of a log, as ranges."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

_LAST = 1 << 63  # above every id
_REPLICA = 34  # bits of the counter within an id: ids of different replicas never share a range


class UsedIds:
    """A set of decision ids that needs little memory, because a head numbers its decisions consecutively.

    Args:
        ranges: (first, after the last) of the ids to begin with.
        limit: number of ranges above which the older half of the gaps within each replica is closed; ids in them then count
            as used.

    Example:
        >>> used = UsedIds()
        >>> used.add([5, 6, 7, 9])
        >>> used.ranges, used.first_used([8, 9]), 8 in used
        ([(5, 8), (9, 10)], 9, False)
    """

    def __init__(self, ranges: Iterable[Sequence[int]] = (), *, limit: int = 1 << 14) -> None:
        self.limit = limit
        self.ranges: list[tuple[int, int]] = []  # changed by single operations, so that a signal leaves it consistent
        for first, after in ranges:
            self._add_range(first, after)

    def __contains__(self, id: int) -> bool:
        at = bisect_right(self.ranges, (id, _LAST)) - 1
        return at >= 0 and id < self.ranges[at][1]

    def first_used(self, ids: Sequence[int]) -> int | None:
        """Return the first id that is used already, or that comes twice in ``ids``; None if all are new."""
        if not self.ranges and len(ids) == 1:
            return None
        if _consecutive(ids):
            first, after = ids[0], ids[-1] + 1
            at = bisect_right(self.ranges, (first, _LAST)) - 1
            if (at < 0 or self.ranges[at][1] <= first) and (at + 1 == len(self.ranges) or self.ranges[at + 1][0] >= after):
                return None
        seen: set[int] = set()
        for id in ids:
            if id in self or id in seen:
                return id
            seen.add(id)
        return None

    def add(self, ids: Sequence[int]) -> None:
        """Add ids; those that are used already change nothing."""
        if _consecutive(ids):
            self._add_range(ids[0], ids[-1] + 1)
            return
        for id in ids:
            self._add_range(id, id + 1)

    def _add_range(self, first: int, after: int) -> None:
        if self.ranges and self.ranges[-1][1] == first and first >> _REPLICA == (first - 1) >> _REPLICA:  # most often
            self.ranges[-1] = self.ranges[-1][0], after
            return
        begin = bisect_right(self.ranges, (first, _LAST))
        if begin and self._touches(self.ranges[begin - 1][1], first):
            begin -= 1
            first = self.ranges[begin][0]
        stop = begin
        while stop < len(self.ranges) and (self.ranges[stop][0] < after or self._touches(after, self.ranges[stop][0])):
            after = max(after, self.ranges[stop][1])
            stop += 1
        self.ranges[begin:stop] = [(first, after)]
        if len(self.ranges) > self.limit:
            self._close_gaps()

    @staticmethod
    def _touches(after: int, first: int) -> bool:
        """Whether a range that ends before ``after`` continues in one that begins at ``first``."""
        return first <= after and (first < after or (first - 1) >> _REPLICA == first >> _REPLICA)

    def _close_gaps(self) -> None:
        by_replica: dict[int, list[tuple[int, int]]] = {}
        for first, after in self.ranges:
            by_replica.setdefault(first >> _REPLICA, []).append((first, after))
        kept: list[tuple[int, int]] = []
        for ranges in by_replica.values():
            half = (len(ranges) + 1) // 2
            kept += [(ranges[0][0], ranges[half - 1][1]), *ranges[half:]]
        self.ranges = kept


def _consecutive(ids: Sequence[int]) -> bool:
    return bool(ids) and ids[-1] - ids[0] == len(ids) - 1 and (len(ids) == 1 or ids == list(range(ids[0], ids[-1] + 1)))
