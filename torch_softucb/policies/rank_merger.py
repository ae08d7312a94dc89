"""Merge what the processes of a distributed run have learned."""

import hashlib
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.merge import check_mergeable, merged_rows
from torch_softucb.rank_state import RankState

_CHUNK = 1 << 22  # numbers that a process holds at a time while it merges: 32 MB


class RankMerger:
    """Give every process the observations of all, at the moments when :meth:`merge` is called.

    Between merges each process learns from its own rewards only. A merge adds up what the processes have observed since the
    previous one (since the construction of the merger, for the first), so nothing is counted twice. Afterwards V, b and the
    number of observations are those of a single process that saw everything, and all processes have the same bits.

    Construct it and call :meth:`merge` in all processes of the group, at the same point of the program, and not while
    another thread updates a policy. Without a process group, or with one process, a merge does nothing.

    Args:
        module: a policy, a head, or any module that contains some. Their statistics must be the same in all processes.
        group: process group; by default all processes.

    Raises:
        ValueError: if the processes did not start alike, or if a policy cannot be merged because it keeps a memory
            or carries gamma, or because a head discounts.

    Example:
        >>> from torch_softucb import LinUCB
        >>> policy = LinUCB(2)
        >>> merger = RankMerger(policy)
        >>> policy.update(torch.tensor([1.0, 0.0]), torch.tensor(1.0))
        >>> merger.merge()
    """

    def __init__(self, module: nn.Module, *, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self.policies = {name: part for name, part in module.named_modules() if isinstance(part, BanditPolicy)}
        if not self.policies:
            raise ValueError(f"RankMerger: module must contain a policy, got {type(module).__name__} without one")
        for policy in self.policies.values():
            check_mergeable("RankMerger", policy)
        for name, part in module.named_modules():
            if isinstance(part, RankState) and getattr(part, "discount", 1.0) != 1.0:
                raise ValueError(
                    f"RankMerger: discount must be 1 to merge statistics, got {part.discount} in {name or 'head'}"
                )
        self._start: dict[str, Tensor] = {}
        if self.world_size > 1:
            self._check_alike()
            self._note_start()

    @property
    def world_size(self) -> int:
        """Number of processes whose statistics are merged."""
        return dist.get_world_size(self.group) if dist.is_available() and dist.is_initialized() else 1

    @torch.inference_mode(False)
    @torch.no_grad()
    def merge(self) -> None:
        """Merge the statistics of all policies; takes effect in all of them, or raises in all processes and changes none."""
        if self.world_size == 1:
            return
        self._check_same_sizes()
        merged = {name: self._merged(name, policy) for name, policy in self.policies.items()}
        for name, policy in self.policies.items():
            with policy.guard.lock:
                policy.guard.recover()
                policy.write(None, merged[name])
        self._note_start()

    def _merged(self, name: str, policy: BanditPolicy) -> Tensor:  # (*B, size)
        """Return the merged statistics of one policy, computed in slices of its bandits."""
        size = policy.layout.size
        own, start = policy.statistics.reshape(-1, size), self._start[name].reshape(-1, size)
        step = max(1, _CHUNK // (size * self.world_size))
        parts = []
        for first in range(0, len(own), step):
            rows = slice(first, first + step)
            replicas = self._gather(own[rows])
            part = merged_rows(start[rows], replicas, policy.layout, where=f"RankMerger.merge: {name or 'policy'}")
            dist.broadcast(part, group_src=0, group=self.group)  # another processor could factorise V with other last bits
            parts.append(part)
        return torch.cat(parts).view_as(policy.statistics) if parts else policy.statistics.clone()

    def _note_start(self) -> None:
        self._start = {name: policy.statistics.clone() for name, policy in self.policies.items()}

    def _gather(self, values: Tensor) -> list[Tensor]:
        everyone = [torch.empty_like(values) for _ in range(self.world_size)]
        dist.all_gather(everyone, values.contiguous(), group=self.group)
        return everyone

    def _differing(self, *contents: Any) -> list[int]:
        """Return the ranks whose contents differ from those of rank 0; the same list in every process."""
        digest = hashlib.sha256()
        for content in contents:
            digest.update(content)
        device = next(iter(self.policies.values())).device
        own = torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8).to(device)
        digests = self._gather(own)
        return [rank for rank, other in enumerate(digests) if not torch.equal(other, digests[0])]

    def _sizes(self) -> bytes:
        return repr([(name, tuple(policy.statistics.shape)) for name, policy in self.policies.items()]).encode()

    def _check_alike(self) -> None:
        values = (
            value.to("cpu").numpy()
            for policy in self.policies.values()
            for value in (*policy.prior_tensors, policy.statistics)
        )
        other = self._differing(self._sizes(), *(value.tobytes() for value in values))
        if other:
            raise ValueError(
                f"RankMerger: all processes must start with the same statistics, but ranks {other} differ from rank 0; "
                "construct the policies alike or load the same checkpoint, and construct the merger before the first update"
            )

    def _check_same_sizes(self) -> None:
        known = [tuple(start.shape) for start in self._start.values()]
        resized = known != [tuple(policy.statistics.shape) for policy in self.policies.values()]
        other = self._gather(torch.tensor([resized], device=next(iter(self.policies.values())).device))
        ranks = [rank for rank, flag in enumerate(other) if bool(flag)]
        if ranks:
            raise ValueError(
                f"RankMerger.merge: the batch of bandits must not change between merges, but did in ranks {ranks}; "
                "construct another RankMerger after reset(batch_shape=...); nothing was changed"
            )
