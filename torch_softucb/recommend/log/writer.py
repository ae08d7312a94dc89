"""The decision log: every decision with its propensity, every reward, safe against a crash, readable as Parquet.

A folder of segments, numbered from 1. The last is a journal that is written to; those before are journals or, once sealed,
two Parquet files (decisions and rewards) each.
"""

import os
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.recommend._checks import check_feedback
from torch_softucb.recommend.head import Served
from torch_softucb.recommend.log._checks import check_logged
from torch_softucb.recommend.log.codec import Entry, encode_decisions, encode_rewards
from torch_softucb.recommend.log.journal import Journal, records


class Place(NamedTuple):
    """How far a log has come."""

    segment: int
    record: int  # records of that segment that are before this place


def segment_path(folder: Path, number: int, ending: str = "journal") -> Path:
    return folder / f"{number:08d}.{ending}"


def segments(folder: Path) -> list[int]:
    """Numbers of the segments that are there."""
    return sorted({int(path.name[:8]) for path in folder.glob("????????.*") if path.name[:8].isdigit()})


def is_sealed(folder: Path, number: int) -> bool:
    return all(segment_path(folder, number, f"{kind}.parquet").exists() for kind in ("decisions", "rewards"))


class DecisionLog:
    """Writes decisions and rewards; a call returns when it is in line, ``commit`` when the disk has it.

    Args:
        folder: made if it is not there; one writer at a time.
        group: commit by itself after so many decisions and rewards.
        segment_bytes: begin a new segment beyond that size.

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
        self._waiting: list[Entry | bytes] = []  # decisions as they came, rewards as records
        self._count = 0
        last = max(segments(self.folder), default=1)
        self._open(last + is_sealed(self.folder, last))

    def _open(self, number: int) -> None:
        path = segment_path(self.folder, number)
        self._journal = Journal(path)
        self._place = Place(number, sum(1 for _ in records(path)))

    @property
    def place(self) -> Place:
        """Behind the last commit: what a checkpoint keeps, for :func:`restart`."""
        return self._place

    def decisions(
        self,
        served: Served,
        *,
        version: int = 0,
        context: Tensor | None = None,  # (N,) int64
        candidates: Tensor | None = None,  # (K,) or (N, K) int64 item ids; masked ones are written as -1
        features: Tensor | None = None,  # (K, d) or (N, K, d) of all candidates, to learn and evaluate from the log alone
    ) -> None:
        """Add decisions, as :meth:`SoftUCBHead.serve` gives them; ``version`` is the model's.

        Tensors are read when the group is committed: do not write over them before.
        """
        check_logged("DecisionLog.decisions", served, version, context, candidates, features)
        if candidates is None and features is not None:
            candidates = torch.arange(served.num_arms)
        if candidates is not None and served.mask is not None:
            candidates = candidates.masked_fill(~served.mask, -1)
        self._add(Entry(served, version, context, candidates, features), served.id.numel())

    def rewards(self, id: Tensor, reward: Tensor) -> None:  # (*N,), (*N,)
        """Add rewards that :meth:`SoftUCBHead.feedback` has taken in: afterwards, so that what it refuses is not logged."""
        ids, values = check_feedback("DecisionLog.rewards", id, reward, dtype=torch.float64)
        self._add(encode_rewards(ids, values), len(ids))

    def drops(self, id: Tensor) -> None:  # (*N,)
        """Add decisions that :meth:`SoftUCBHead.drop` has given up."""
        ids, values = check_feedback("DecisionLog.drops", id, torch.zeros(id.shape), dtype=torch.float64)
        self._add(encode_rewards(ids, torch.full_like(values, torch.nan)), len(ids))

    def _add(self, entry: Entry | bytes, count: int) -> None:
        self._waiting.append(entry)
        self._count += count
        if self._count >= self.group:
            self.commit()

    def commit(self) -> None:
        """Wait until everything so far is on the disk."""
        if self._journal.size > self.segment_bytes:
            self._journal.close()
            self._open(self._place.segment + 1)
        encoded: list[bytes] = []
        for shape, run in groupby(self._waiting, lambda entry: entry.shape if isinstance(entry, Entry) else None):
            together = list(run)
            encoded += [encode_decisions(together)] if shape is not None else together  # type: ignore[arg-type]
        self._waiting.clear()
        self._count = 0
        for record in encoded:
            self._journal.append(record)
        self._journal.commit()
        self._place = self._place._replace(record=self._place.record + len(encoded))

    def seal(self) -> None:
        """Make Parquet files of all segments so far and begin a new one."""
        from torch_softucb.recommend.log.parquet import seal_segment

        self.close()
        for number in segments(self.folder):
            if segment_path(self.folder, number).exists():
                seal_segment(self.folder, number)
        self._open(self._place.segment + 1)

    def close(self) -> None:
        self.commit()
        self._journal.close()

    def __enter__(self) -> "DecisionLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
