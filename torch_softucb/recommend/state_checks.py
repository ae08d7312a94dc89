"""Checks of a saved state of a head, before any of it is loaded."""

from collections.abc import Mapping

import torch
from torch import Tensor

from torch_softucb.policies.base import BanditPolicy
from torch_softucb.recommend.ids import END, REPLICA_BITS, has_issued, issued_ends


def check_head_state(where: str, state: Mapping[str, object], prefix: str, policy: BanditPolicy) -> None:
    """Check the ids, open decisions and normalisation of a state; names that are missing are torch's to report.

    Args:
        where: start of the error message.
        state: the state dict.
        prefix: prefix of the head's names in it.
        policy: policy of the head; the state's own statistics take precedence for the number of bandits.

    Raises:
        ValueError: naming the first entry that cannot be part of a head's state.
    """
    found = _Entries(where, state, prefix)
    found.check_ids()
    rows = state.get(f"{prefix}policy.statistics", policy.statistics)
    bandits = rows.shape[:-1].numel() if isinstance(rows, Tensor) and rows.dim() > 1 else 0
    found.check_pending(policy.dim, bandits)
    found.check_features()


class _Entries:
    def __init__(self, where: str, state: Mapping[str, object], prefix: str) -> None:
        self.where, self.state, self.prefix = where, state, prefix

    def get(self, name: str, dims: int, *, integer: bool) -> Tensor | None:
        value = self.state.get(self.prefix + name)
        if value is None:
            return None
        expected = "int64" if integer else "floating point"
        self.require(isinstance(value, Tensor), name, "must be a tensor", type(value).__name__)
        assert isinstance(value, Tensor)
        right = value.dtype == torch.int64 if integer else value.is_floating_point()
        self.require(
            right and value.dim() == dims, name, f"must be {expected} with {dims} dims", (value.dtype, tuple(value.shape))
        )
        return value

    def require(self, right: bool, name: str, must: str, got: object) -> None:
        if not right:
            raise ValueError(f"{self.where}: saved {self.prefix}{name} {must}, got {got}; nothing was changed")

    def check_ids(self) -> None:
        stream, replicas = self.get("stream", 1, integer=True), self.get("replicas", 2, integer=True)
        if stream is not None:
            self.require(len(stream) == 2, "stream", "must have 2 numbers", tuple(stream.shape))
            self.require(0 <= int(stream[1]) <= END, "stream", f"must have a counter from 0 to {END}", int(stream[1]))
        if replicas is not None:
            fits = len(replicas) > 0 and replicas.shape[1] == 2
            self.require(fits, "replicas", "must have shape (r, 2), r at least 1", tuple(replicas.shape))
            number, end = replicas.unbind(-1)
            low, high = int(number.min()), int(number.max())
            self.require(
                low >= 0 and high >> REPLICA_BITS == 0, "replicas", f"must be in [0, 2**{REPLICA_BITS})", (low, high)
            )
            self.require(len(set(number.tolist())) == len(number), "replicas", "must be different numbers", number.tolist())
            low, high = int(end.min()), int(end.max())
            self.require(low >= 0 and high <= END, "replicas", f"must have counters from 0 to {END}", (low, high))

    def check_pending(self, dim: int, bandits: int) -> None:
        ids, x = self.get("pending.id", 1, integer=True), self.get("pending.x", 2, integer=False)
        bandit = self.get("pending.bandit", 1, integer=True)
        stream, replicas = self.get("stream", 1, integer=True), self.get("replicas", 2, integer=True)
        if ids is None or x is None or bandit is None:
            all_missing = ids is None and x is None and bandit is None
            self.require(all_missing, "pending", "must have id, x and bandit, or none of them", "a part of them")
            return
        self.require(x.shape == (len(ids), dim), "pending.x", f"must have shape {(len(ids), dim)}", tuple(x.shape))
        self.require(bandit.shape == ids.shape, "pending.bandit", f"must have shape {(len(ids),)}", tuple(bandit.shape))
        self.require(bool(x.isfinite().all()), "pending.x", "must be finite", "NaN or infinite values")
        self.require(len(set(ids.tolist())) == len(ids), "pending.id", "must be different ids", "an id twice")
        if stream is not None and replicas is not None:
            ends = issued_ends(stream, replicas)
            wrong = next((i for i in ids.tolist() if not has_issued(ends, i)), None)
            self.require(wrong is None, "pending.id", "must be ids that the head has issued", wrong)
        low, high = (int(bandit.min()), int(bandit.max())) if len(bandit) else (0, 0)
        right = not len(bandit) or (low >= 0 and high < bandits if bandits else low == high == -1)
        self.require(right, "pending.bandit", f"must be in [0, {bandits})" if bandits else "must be -1", (low, high))

    def check_features(self) -> None:
        mean, scale = self.get("features.mean", 1, integer=False), self.get("features.scale", 1, integer=False)
        if mean is not None:
            self.require(bool(mean.isfinite().all()), "features.mean", "must be finite", "NaN or infinite values")
        if scale is not None:
            right = bool((scale.isfinite() & (scale > 0)).all())
            self.require(right, "features.scale", "must be finite and above 0", scale.tolist())
