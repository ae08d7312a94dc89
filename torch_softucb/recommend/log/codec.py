"""Records of a decision log as bytes: a short header, then columns of numbers."""

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.errors import JournalError
from torch_softucb.recommend.serving import Served

Columns = dict[str, NDArray[Any]]  # column name -> values of all rows of a record

SCALAR_COLUMNS = {  # one number per decision, in the order in which they are written
    "id": np.int64,
    "bandit": np.int64,  # -1: a single bandit
    "context": np.int64,  # the caller's reference to the request; -1: none
    "arm": np.int64,
    "position": np.int64,  # in the slate, from 0
    "propensity": np.float64,  # in a slate, given the items before it
    "beta": np.float64,  # NaN: the policy has none
}
# b"D", model version, decisions, candidates, features (negative: those of all candidates follow), dtype of the features
_DECISIONS = struct.Struct("<cqqqqc")
_REWARDS = struct.Struct("<cq")  # b"R", rewards
_FLOATS: dict[bytes, np.dtype[Any]] = {b"4": np.dtype("<f4"), b"8": np.dtype("<f8")}


class Entry(NamedTuple):
    """Arguments of one call to :meth:`DecisionLog.decisions`, kept until they are committed.

    Attributes:
        served: the decisions.
        version: version of the model that made them.
        context: int64 (N,), the caller's reference to each request; None if there is none.
        candidates: int64 (K,) or (N, K), ids of all candidate items, -1 where masked; None if they are not logged.
        features: (K, d) or (N, K, d) features of all candidates; None if they are not logged.
    """

    served: Served
    version: int
    context: Tensor | None  # (N,)
    candidates: Tensor | None  # (K,) or (N, K)
    features: Tensor | None  # (K, d) or (N, K, d)

    @property
    def layout(self) -> tuple[Any, ...]:
        """Shapes of all columns; entries with the same layout can share a record."""
        served = self.served
        return (
            self.version,
            served.x.shape,
            served.k,
            None if served.beta is None else served.beta.dim(),
            served.bandit is None,
            self.context is None,
            None if self.candidates is None else self.candidates.shape,
            None if self.features is None else self.features.shape,
        )


def encode_decisions(entries: Sequence[Entry]) -> bytes:
    """Return one record of entries that have the same layout."""
    first = entries[0].served
    rows = len(entries) * first.id.numel()
    slate_size = first.k or 1
    scalars = {
        "id": _column([entry.served.id for entry in entries], rows),
        "bandit": _column([entry.served.bandit for entry in entries], rows),
        "context": _column([entry.context for entry in entries], rows),
        "arm": _column([entry.served.arm for entry in entries], rows),
        "position": np.zeros(rows, np.int64) if slate_size == 1 else np.tile(np.arange(slate_size), rows // slate_size),
        "propensity": _column([entry.served.propensity for entry in entries], rows),
        "beta": _column([entry.served.beta for entry in entries], rows),
    }
    columns: Columns = {}
    for name, dtype in SCALAR_COLUMNS.items():
        values = scalars[name]
        if values is None:
            values = np.full(rows, np.nan if name == "beta" else -1, dtype=dtype)
        columns[name] = values.astype(dtype, copy=False)
    x = _column([entry.served.x for entry in entries], rows, trailing=1)
    assert x is not None
    candidates = _column([entry.candidates for entry in entries], rows, trailing=1)
    features = _column([entry.features for entry in entries], rows, trailing=2)
    return _pack_decisions(columns, entries[0].version, x, candidates, features)


def _pack_decisions(
    scalars: Columns,
    version: int,
    x: NDArray[Any],  # (n, d)
    candidates: NDArray[Any] | None,  # (n, K)
    features: NDArray[Any] | None,  # (n, K, d)
) -> bytes:
    float_code = b"8" if x.dtype.itemsize == 8 else b"4"
    parts = [scalars[name] for name in SCALAR_COLUMNS]
    parts.append(x.astype(_FLOATS[float_code], copy=False))
    if candidates is not None:
        parts.append(candidates)
    if features is not None:
        parts.append(features.astype(_FLOATS[float_code], copy=False))
    num_candidates = 0 if candidates is None else candidates.shape[1]
    dim = x.shape[1] * (1 if features is None else -1)
    header = _DECISIONS.pack(b"D", version, len(x), num_candidates, dim, float_code)
    return header + b"".join(part.tobytes() for part in parts)


def encode_columns(record_type: str, columns: Columns) -> bytes:
    """Return the record with these columns, the inverse of :func:`decode`."""
    if record_type == "rewards":
        return _REWARDS.pack(b"R", len(columns["id"])) + columns["id"].tobytes() + columns["reward"].tobytes()
    candidates, features = columns["candidates"], columns["features"]
    return _pack_decisions(
        columns,
        int(columns["version"][0]) if len(columns["version"]) else 0,
        columns["x"],
        candidates if candidates.shape[1] else None,
        features if features.shape[1] else None,
    )


def _column(values: Sequence[Tensor | None], rows: int, *, trailing: int = 0) -> NDArray[Any] | None:  # (rows, *trailing)
    """Stack one tensor per entry; values of a request, or of an entry, are repeated for each of its items."""
    tensors = [value for value in values if value is not None]
    if not tensors:
        return None
    stacked = tensors[0] if len(tensors) == 1 else torch.stack(tensors)
    array = stacked.numpy() if stacked.is_cpu and not stacked.requires_grad else stacked.numpy(force=True)
    flat = array.reshape(-1, *array.shape[array.ndim - trailing :])
    return flat if len(flat) == rows else np.repeat(flat, rows // len(flat), axis=0)


def encode_rewards(id: Tensor, reward: Tensor) -> bytes:  # (*N,), (*N,)
    """Return a record of rewards; NaN marks a decision that was dropped."""
    ids, values = id.reshape(-1).numpy(force=True), reward.reshape(-1).numpy(force=True).astype(np.float64)
    return _REWARDS.pack(b"R", len(ids)) + ids.tobytes() + values.tobytes()


def decode(record: bytes | memoryview) -> tuple[str, Columns]:
    """Return the type of a record, "decisions" or "rewards", and its columns.

    A scalar column is (n,), ``x`` (n, d), ``candidates`` (n, K) and ``features`` (n, K, d); K is 0 where none were logged.

    Raises:
        JournalError: if the record is neither, or its size is not the one that it declares.
    """
    if record[:1] == b"R" and len(record) >= _REWARDS.size:
        _, count = _REWARDS.unpack_from(record)
        at = _REWARDS.size
        _check_size(record, count >= 0 and len(record) == at + 16 * count)
        ids = np.frombuffer(record, np.int64, count, at)
        return "rewards", {"id": ids, "reward": np.frombuffer(record, np.float64, count, at + 8 * count)}
    _check_size(record, record[:1] == b"D" and len(record) >= _DECISIONS.size)
    _, version, rows, num_candidates, dim, float_code = _DECISIONS.unpack_from(record)
    at, columns = _DECISIONS.size, {}
    features = num_candidates if dim < 0 else 0
    _check_size(record, min(rows, num_candidates) >= 0 and float_code in _FLOATS)
    width = _FLOATS[float_code].itemsize
    per_row = 8 * (len(SCALAR_COLUMNS) + num_candidates) + width * abs(dim) * (1 + features)
    _check_size(record, len(record) == at + rows * per_row)

    def take(dtype: Any, *shape: int) -> NDArray[Any]:
        nonlocal at
        count = math.prod(shape)
        values = np.frombuffer(record, dtype, count, at).reshape(shape)
        at += values.nbytes
        return values

    for name, dtype in SCALAR_COLUMNS.items():
        columns[name] = take(dtype, rows)
    columns["version"] = np.full(rows, version)
    columns["x"] = take(_FLOATS[float_code], rows, abs(dim))
    columns["candidates"] = take(np.int64, rows, num_candidates)
    columns["features"] = take(_FLOATS[float_code], rows, features, abs(dim))
    return "decisions", columns


def decision_ids(record: bytes | memoryview) -> list[int]:
    """Return the decision ids of a record, none if it holds rewards."""
    record_type, columns = decode(record)
    ids: list[int] = columns["id"].tolist() if record_type == "decisions" else []
    return ids


def _check_size(record: bytes | memoryview, ok: bool) -> None:
    if not ok:
        raise JournalError(f"a record of {len(record)} bytes does not have the contents that it declares")
