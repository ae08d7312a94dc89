"""Records of a decision log as bytes: columns of numbers behind a short header."""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.recommend.head import Served

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
_DECISIONS = struct.Struct("<cqqqqc")  # D, model version, decisions, candidates, features (below 0: of all), their kind
_REWARDS = struct.Struct("<cq")  # R, rewards
_FLOATS: dict[bytes, np.dtype[Any]] = {b"4": np.dtype("<f4"), b"8": np.dtype("<f8")}


class Entry(NamedTuple):
    """One call of :meth:`DecisionLog.decisions`."""

    served: Served
    version: int
    context: Tensor | None  # (N,)
    candidates: Tensor | None  # (K,) or (N, K)
    features: Tensor | None  # (K, d) or (N, K, d)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Entries of one shape can share a record."""
        served, version, context, candidates, features = self
        return (
            version,
            served.x.shape,
            served.k,
            None if served.beta is None else served.beta.dim(),
            served.bandit is None,
            context is None,
            None if candidates is None else candidates.shape,
            None if features is None else features.shape,
        )


def encode_decisions(entries: Sequence[Entry]) -> bytes:
    """A record of entries of one shape."""
    first = entries[0].served
    rows = len(entries) * first.id.numel()
    each = first.k or 1  # items of a request
    kind = b"8" if first.x.element_size() == 8 else b"4"

    def column(values: list[Tensor | None], trailing: int = 0) -> NDArray[Any] | None:
        """Of every item as it is; of a request, or of an entry, again for each of its items."""
        if values[0] is None:
            return None
        whole = values[0] if len(values) == 1 else torch.stack(values)  # type: ignore[arg-type]
        stacked = whole.numpy() if whole.is_cpu and not whole.requires_grad else whole.numpy(force=True)
        flat = stacked.reshape(-1, *stacked.shape[stacked.ndim - trailing :])
        return flat if len(flat) == rows else np.repeat(flat, rows // len(flat), axis=0)

    found = {
        "id": column([entry.served.id for entry in entries]),
        "bandit": column([entry.served.bandit for entry in entries]),
        "context": column([entry.context for entry in entries]),
        "arm": column([entry.served.arm for entry in entries]),
        "position": np.zeros(rows, np.int64) if each == 1 else np.tile(np.arange(each), rows // each),
        "propensity": column([entry.served.propensity for entry in entries]),
        "beta": column([entry.served.beta for entry in entries]),
    }
    parts = []
    for name, dtype in FIXED.items():
        values = found[name]
        if values is None:
            values = np.full(rows, np.nan if name == "beta" else -1, dtype=dtype)
        parts.append(values.astype(dtype, copy=False))
    parts.append(column([entry.served.x for entry in entries], 1).astype(_FLOATS[kind], copy=False))  # type: ignore[union-attr]
    names = column([entry.candidates for entry in entries], 1)
    features = column([entry.features for entry in entries], 2)
    if names is not None:
        parts.append(names)
    if features is not None:
        parts.append(features.astype(_FLOATS[kind], copy=False))
    dim = first.x.shape[-1] * (1 if features is None else -1)
    head = _DECISIONS.pack(b"D", entries[0].version, rows, 0 if names is None else names.shape[1], dim, kind)
    return head + b"".join(part.tobytes() for part in parts)


def encode_rewards(id: Tensor, reward: Tensor) -> bytes:  # (*N,), (*N,)
    names, values = id.reshape(-1).numpy(force=True), reward.reshape(-1).numpy(force=True).astype(np.float64)
    return _REWARDS.pack(b"R", len(names)) + names.tobytes() + values.tobytes()


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
