"""The writer of a decision log: every decision with its propensity, and every reward, durable against a crash."""

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.recommend._checks import check_feedback
from torch_softucb.recommend.log._checks import check_logged, check_pyarrow
from torch_softucb.recommend.log.codec import Entry, encode_decisions, encode_rewards
from torch_softucb.recommend.log.journal import Journal, records
from torch_softucb.recommend.log.segments import Place, is_sealed, segment_path, segments
from torch_softucb.recommend.serving import Served


class DecisionLog:
    """Writer of decisions and rewards: calls buffer records, ``commit`` returns once they are durable.

    Args:
        folder: folder of the log; created if it does not exist. A log has one writer at a time.
        group: number of buffered decisions and rewards after which a call commits automatically.
        segment_bytes: size above which the next commit starts a new segment.

    Example:
        >>> import tempfile
        >>> from torch_softucb import SoftUCBHead, SoftUCBPolicy
        >>> from torch_softucb.recommend import read_log
        >>> head = SoftUCBHead(torch.nn.Embedding(9, 2), SoftUCBPolicy(2))
        >>> with DecisionLog(tempfile.mkdtemp()) as log:
        ...     served = head.serve(head(torch.tensor([[1, 2, 3]])))
        ...     log.decisions(served)
        ...     log.commit()  # only now show the item
        ...     _ = head.feedback(served.id, torch.tensor([1.0]))
        ...     log.rewards(served.id, torch.tensor([1.0]))
        >>> read_log(log.folder).reward
        tensor([1.], dtype=torch.float64)
    """

    def __init__(self, folder: str | os.PathLike[str], *, group: int = 32, segment_bytes: int = 1 << 26) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.group = check_integer("DecisionLog", "group", group, low=1)
        self.segment_bytes = check_integer("DecisionLog", "segment_bytes", segment_bytes, low=1)
        self._waiting: list[Entry | bytes] = []  # decisions are encoded at the commit, so that several calls share a record
        self._count = 0
        last = max(segments(self.folder), default=1)
        self._open(last + is_sealed(self.folder, last))

    def _open(self, number: int) -> None:
        path = segment_path(self.folder, number)
        self._journal = Journal(path)
        self._place = Place(number, sum(1 for _ in records(path)))

    @property
    def place(self) -> Place:
        """Position after the last commit; a checkpoint contains it for :func:`restart`."""
        return self._place

    def decisions(
        self,
        served: Served,
        *,
        version: int = 0,
        context: Tensor | None = None,  # (N,) int64
        candidates: Tensor | None = None,  # (K,) or (N, K) int64
        features: Tensor | None = None,  # (K, d) or (N, K, d)
    ) -> None:
        """Add decisions. The tensors are read at the next commit: do not modify them before.

        Args:
            served: result of :meth:`SoftUCBHead.serve`.
            version: version of the model.
            context: the caller's reference to each request.
            candidates: ids of all candidate items; those that the mask excluded are written as -1.
            features: features of all candidates, needed to learn and to evaluate from the log alone.
        """
        check_logged("DecisionLog.decisions", served, version, context, candidates, features)
        if candidates is None and features is not None:
            candidates = torch.arange(served.num_arms)
        if candidates is not None and served.mask is not None:
            candidates = candidates.masked_fill(~served.mask, -1)
        self._add(Entry(served, version, context, candidates, features), served.id.numel())

    def rewards(self, id: Tensor, reward: Tensor) -> None:  # (*N,), (*N,)
        """Add rewards. Call it after :meth:`SoftUCBHead.feedback`, so that refused rewards are not logged."""
        ids, values = check_feedback("DecisionLog.rewards", id, reward, dtype=torch.float64)
        self._add(encode_rewards(ids, values), len(ids))

    def drops(self, id: Tensor) -> None:  # (*N,)
        """Add decisions that :meth:`SoftUCBHead.drop` has closed."""
        ids, values = check_feedback("DecisionLog.drops", id, torch.zeros(id.shape), dtype=torch.float64)
        self._add(encode_rewards(ids, torch.full_like(values, torch.nan)), len(ids))

    def _add(self, entry: Entry | bytes, count: int) -> None:
        self._waiting.append(entry)
        self._count += count
        if self._count >= self.group:
            self.commit()

    def commit(self) -> None:
        """Write everything added so far and return once it is durable."""
        if self._journal.size > self.segment_bytes:
            self._journal.close()
            self._open(self._place.segment + 1)
        encoded = list(_encoded(self._waiting))
        self._waiting.clear()
        self._count = 0
        for record in encoded:
            self._journal.append(record)
        self._journal.commit()
        self._place = self._place._replace(record=self._place.record + len(encoded))

    def seal(self) -> None:
        """Convert all segments so far to Parquet files and start a new segment."""
        check_pyarrow("DecisionLog.seal")
        from torch_softucb.recommend.log.parquet import seal_segment

        self.close()
        for number in segments(self.folder):
            if segment_path(self.folder, number).exists():
                seal_segment(self.folder, number)
        self._open(self._place.segment + 1)

    def close(self) -> None:
        """Commit and close the log."""
        self.commit()
        self._journal.close()

    def __enter__(self) -> "DecisionLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _encoded(waiting: Sequence[Entry | bytes]) -> Iterator[bytes]:
    """Yield the records of a commit; consecutive decisions of the same layout share one."""

    def layout(entry: Entry | bytes) -> tuple[Any, ...] | None:
        return entry.layout if isinstance(entry, Entry) else None

    for _, run in groupby(waiting, layout):
        entries: list[Entry] = []
        for entry in run:
            if isinstance(entry, Entry):
                entries.append(entry)
            else:
                yield entry
        if entries:
            yield encode_decisions(entries)
