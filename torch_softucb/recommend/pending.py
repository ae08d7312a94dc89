"""Decisions that wait for their reward."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from torch_softucb.recommend.ids import END


def _age(decision: int) -> tuple[int, int]:
    return decision % END, decision  # the counter goes on under another replica number


class Pending(nn.Module):
    """Store of the features and the bandit of every open decision, by decision id.

    The rows are buffers that grow as needed; closing a decision frees its row for the next one. ``state_dict`` holds the
    open decisions only. :meth:`opening` and :meth:`closing` return a change and the function that undoes it, for
    :meth:`~torch_softucb.policies.guard.Guard.commit`; both may be called more than once. The caller holds the lock.

    Args:
        dim: number of features d.
        dtype: dtype of the features.
        device: device of the buffers.
    """

    x: Tensor
    bandit: Tensor

    def __init__(self, dim: int, *, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.register_buffer("id", torch.zeros(0, dtype=torch.int64, device=device))
        self.register_buffer("x", torch.zeros(0, dim, dtype=dtype, device=device))
        self.register_buffer("bandit", torch.zeros(0, dtype=torch.int64, device=device))
        self._row: dict[int, int] = {}  # decision id -> row of the buffers
        self._free: list[int] = []  # rows without a decision, the next one to use last

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, decision: int) -> bool:
        return decision in self._row

    def opening(
        self,
        ids: Tensor,  # (n,)
        x: Tensor,  # (n, d)
        bandit: Tensor | None,  # (n,); None if there is only one
    ) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return the functions that open decisions and that undo it."""
        buffers, free, new = dict(self.named_buffers()), self._free, ids.tolist()
        rows, left = free[len(free) - len(new) :], len(free) - len(new)
        if left < 0:  # all rows of the larger buffers that are not needed now are free from then on
            start, by = len(self.x), max(64, len(self.x), len(new))
            buffers = {name: torch.cat((old, old.new_zeros(by, *old.shape[1:]))) for name, old in buffers.items()}
            fresh = [*free, *range(start + by - 1, start - 1, -1)]
            free, rows, left = fresh[: -len(new)], fresh[-len(new) :], -1
        at = torch.tensor(rows, dtype=torch.int64, device=self.x.device)
        buffers["id"][at] = ids  # nothing refers to these rows yet
        buffers["x"][at] = x.detach().to(self.x)
        buffers["bandit"][at] = -1 if bandit is None else bandit
        added, old_buffers, old_free = dict(zip(new, rows, strict=True)), dict(self._buffers), self._free

        def write() -> None:
            if left < 0:
                self._buffers.update(buffers)
                self._free = free
            else:
                del free[left:]
            self._row.update(added)

        def undo() -> None:
            for decision in new:
                self._row.pop(decision, None)
            if left >= 0:
                free[left:] = rows
            self._free = old_free
            self._buffers.update(old_buffers)

        return write, undo

    def closing(self, ids: list[int]) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return the functions that remove open decisions and that undo it."""
        removed, free, size = {decision: self._row[decision] for decision in ids}, self._free, len(self._free)

        def write() -> None:
            for decision in removed:
                del self._row[decision]
            free[size:] = removed.values()

        def undo() -> None:
            del free[size:]
            self._row.update(removed)

        return write, undo

    def find(self, ids: list[int]) -> tuple[Tensor, Tensor]:  # (n, d), (n,)
        """Return the features and bandits of open decisions."""
        at = torch.tensor([self._row[i] for i in ids], dtype=torch.int64, device=self.x.device)
        return self.x[at], self.bandit[at]

    def ids(self) -> Tensor:  # (n,)
        """Return the ids of all open decisions, the oldest first."""
        return torch.tensor(sorted(self._row, key=_age), dtype=torch.int64, device=self.x.device)

    def all(self) -> tuple[Tensor, Tensor]:  # (n, d), (n,)
        """Return the features and bandits of all open decisions, the oldest first."""
        return self.find(sorted(self._row, key=_age))

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "id"] = self.ids()
        destination[prefix + "x"], destination[prefix + "bandit"] = self.all()

    @torch.inference_mode(False)
    def _load_from_state_dict(self, state_dict, prefix, *args):  # type: ignore[no-untyped-def]
        saved, ids = state_dict.get(prefix + "x"), state_dict.get(prefix + "id")
        if saved is not None and ids is not None and saved.dim() == 2 and saved.shape[1] == self.x.shape[1]:
            for name, buffer in list(self.named_buffers()):
                setattr(self, name, buffer.new_empty(len(saved), *buffer.shape[1:]))
            self._row, self._free = {decision: row for row, decision in enumerate(ids.tolist())}, []
        super()._load_from_state_dict(state_dict, prefix, *args)


def pending_gram(
    x: Tensor,  # (n, d)
    owner: Tensor,  # (n,)
    bandit: Tensor | None,  # (N,)
) -> Tensor:  # (d, d) or (N, d, d)
    """Return the sum of x x^T over all open decisions, or over those of each requested bandit, in float64."""
    x = x.double()
    if bandit is None:
        return x.mT @ x
    unique, group = torch.unique(bandit, return_inverse=True)
    at = torch.searchsorted(unique, owner).clamp(max=len(unique) - 1)
    requested = unique[at] == owner
    sums = x.new_zeros(len(unique), x.shape[-1], x.shape[-1])
    x = x[requested]
    return sums.index_add_(0, at[requested], x.unsqueeze(-1) * x.unsqueeze(-2))[group]
