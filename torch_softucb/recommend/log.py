"""The decision log: every decision with its propensity, every reward, safe against a crash, readable as Parquet.

A folder of segments, numbered from 1. The last is a journal that is written to; those before are journals or, once sealed,
two Parquet files (decisions and rewards) each. A record is one call: a batch of decisions, or a batch of rewards.
"""

import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.checks import check_integer, check_logged
from torch_softucb.recommend.head import Served
from torch_softucb.recommend.journal import Journal, records

Columns = dict[str, NDArray[Any]]

FIXED = {  # of every decision, in the order in which they are written
    "id": np.int64,
    "bandit": np.int64,  # -1: one bandit for all
    "context": np.int64,  # the caller's reference to the request; -1: none
    "arm": np.int64,
    "position": np.int64,  # in the slate, from 0
    "propensity": np.float64,  # in a slate, given the items before it
    "beta": np.float64,  # NaN: the policy has none
}
_DECISIONS = struct.Struct("<cqqqqc")  # D, model version, decisions, candidates, features, kind of features
_REWARDS = struct.Struct("<cq")  # R, rewards
_FLOATS: dict[bytes, np.dtype[Any]] = {b"4": np.dtype("<f4"), b"8": np.dtype("<f8")}


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
    """Writes decisions and rewards; a call returns when its record is in line, ``commit`` when the disk has it.

    Args:
        folder: made if it is not there; one writer at a time.
        group: commit by itself after so many records.
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
        ...     log.rewards(served.id, torch.tensor([1.0]))
        >>> read_log(log.folder).reward
        tensor([1.], dtype=torch.float64)
    """

    def __init__(self, folder: str | os.PathLike[str], *, group: int = 32, segment_bytes: int = 1 << 26) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.group = check_integer("DecisionLog", "group", group, low=1)
        self.segment_bytes = check_integer("DecisionLog", "segment_bytes", segment_bytes, low=1)
        last = max(segments(self.folder), default=1)
        self._open(last + is_sealed(self.folder, last))

    def _open(self, number: int) -> None:
        path = segment_path(self.folder, number)
        self._journal = Journal(path, group=self.group)
        self._place = Place(number, sum(1 for _ in records(path)))

    @property
    def place(self) -> Place:
        """Where the next record will be: what a checkpoint keeps, for :func:`restart`."""
        return self._place

    def decisions(
        self,
        served: Served,
        *,
        version: int = 0,
        context: Tensor | None = None,  # (N,) int64
        candidates: Tensor | None = None,  # (K,) or (N, K) int64 item ids, -1 where a candidate was not allowed
        features: Tensor | None = None,  # (K, d) or (N, K, d) of all candidates, to learn and evaluate from the log alone
    ) -> None:
        """Add decisions, as :meth:`SoftUCBHead.serve` gives them; ``version`` is the model's."""
        check_logged("DecisionLog.decisions", served.propensity, context, candidates, features, served.id.shape)
        shape = served.id.shape
        rows = int(served.id.numel())
        each = shape[-1] if len(shape) == 2 else 1  # items of a request
        number, kind = _floats(served.x)
        fixed = [
            _column(served.id, rows, each),
            _column(served.bandit, rows, each, empty=-1),
            _column(context, rows, each, empty=-1),
            _column(served.arm, rows, each),
            np.tile(np.arange(each), rows // each),
            _column(served.propensity, rows, each).astype(np.float64),
            _column(served.beta, rows, each, empty=np.nan).astype(np.float64),
        ]
        parts = [column.tobytes() for column in fixed]
        parts.append(served.x.numpy(force=True).astype(number, copy=False).tobytes())
        k = 0
        if candidates is not None or features is not None:
            k = (candidates if candidates is not None else features[..., 0]).shape[-1]  # type: ignore[index]
            names = np.arange(k) if candidates is None else candidates.numpy(force=True)
            parts.append(np.repeat(np.broadcast_to(names, (rows // each, k)), each, axis=0).tobytes())
        if features is not None:
            every = features.numpy(force=True).astype(number, copy=False)
            wide = np.broadcast_to(every, (rows // each, *every.shape[-2:]))
            parts.append(np.repeat(wide, each, axis=0).tobytes())
        dim = served.x.shape[-1] * (1 if features is None else -1)  # negative: features follow
        self._add(_DECISIONS.pack(b"D", version, rows, k, dim, kind) + b"".join(parts))

    def rewards(self, id: Tensor, reward: Tensor) -> None:  # (*N,), (*N,)
        """Add rewards, as :meth:`SoftUCBHead.feedback` takes them."""
        names, values = id.reshape(-1).numpy(force=True), reward.reshape(-1).numpy(force=True).astype(np.float64)
        self._add(_REWARDS.pack(b"R", len(names)) + names.tobytes() + values.tobytes())

    def _add(self, record: bytes) -> None:
        if self._journal.size > self.segment_bytes:
            self._journal.close()
            self._open(self._place.segment + 1)
        self._journal.append(record)
        self._place = self._place._replace(record=self._place.record + 1)

    def commit(self) -> None:
        """Wait until everything so far is on the disk."""
        self._journal.commit()

    def seal(self) -> None:
        """Make Parquet files of all segments so far and begin a new one."""
        from torch_softucb.recommend.parquet import seal_segment

        self._journal.close()
        for number in segments(self.folder):
            if segment_path(self.folder, number).exists():
                seal_segment(self.folder, number)
        self._open(self._place.segment + 1)

    def close(self) -> None:
        self._journal.close()

    def __enter__(self) -> "DecisionLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _floats(x: Tensor) -> tuple[np.dtype[Any], bytes]:
    kind = b"8" if x.element_size() == 8 else b"4"
    return _FLOATS[kind], kind


def _column(values: Tensor | None, rows: int, each: int, empty: float = 0) -> NDArray[Any]:
    """One number a row: of every item as it is, of a request for all its items, of nobody as ``empty``."""
    if values is None:
        return np.full(rows, empty, dtype=np.float64 if isinstance(empty, float) else np.int64)
    numbers: NDArray[Any] = values.reshape(-1).numpy(force=True)
    if len(numbers) == rows:
        return numbers
    return np.repeat(np.broadcast_to(numbers, (rows // each,)), each)


def decode(record: bytes) -> tuple[str, Columns]:
    """("decisions" or "rewards", columns) of a record; ragged columns are (n, K) here."""
    if record[:1] == b"R":
        _, count = _REWARDS.unpack_from(record)
        at = _REWARDS.size
        names = np.frombuffer(record, np.int64, count, at)
        return "rewards", {"id": names, "reward": np.frombuffer(record, np.float64, count, at + 8 * count)}
    _, version, rows, k, dim, kind = _DECISIONS.unpack_from(record)
    at, columns = _DECISIONS.size, {}

    def take(dtype: Any, *shape: int) -> NDArray[Any]:
        nonlocal at
        count = int(np.prod(shape))
        values = np.frombuffer(record, dtype, count, at).reshape(shape)
        at += values.nbytes
        return values

    for name, dtype in FIXED.items():
        columns[name] = take(dtype, rows)
    columns["version"] = np.full(rows, version)
    columns["x"] = take(_FLOATS[kind], rows, abs(dim))
    columns["candidates"] = take(np.int64, rows, k)
    columns["features"] = take(_FLOATS[kind], rows, k if dim < 0 else 0, abs(dim))
    return "decisions", columns
