"""Decisions that wait for their reward."""

from typing import Any

import torch
from torch import Tensor, nn


class Pending(nn.Module):
    """Store of the features and the bandit of every open decision, by decision id.

    The rows are buffers that grow as needed; closing a decision frees its row for the next one. ``state_dict`` holds the
    open decisions only.

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
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, decision: int) -> bool:
        return decision in self._row

    def add(self, ids: Tensor, x: Tensor, bandit: Tensor | None) -> None:  # (n,), (n, d), (n,)
        """Open decisions; ``bandit`` is None if there is only one."""
        new = ids.tolist()
        if len(self._free) < len(new):
            self._grow(max(64, len(self.x), len(new)))
        rows = [self._free.pop() for _ in new]
        at = torch.tensor(rows, dtype=torch.int64, device=self.x.device)
        self.get_buffer("id")[at] = ids
        self.x[at] = x.detach().to(self.x)
        self.bandit[at] = -1 if bandit is None else bandit
        self._row.update(zip(new, rows, strict=True))

    def _grow(self, by: int) -> None:
        start = len(self.x)
        for name, buffer in list(self.named_buffers()):
            setattr(self, name, torch.cat((buffer, buffer.new_zeros(by, *buffer.shape[1:]))))
        self._free += range(start + by - 1, start - 1, -1)

    def find(self, ids: list[int]) -> tuple[Tensor, Tensor]:  # (n, d), (n,)
        """Return the features and bandits of open decisions."""
        at = torch.tensor([self._row[i] for i in ids], dtype=torch.int64, device=self.x.device)
        return self.x[at], self.bandit[at]

    def close(self, ids: list[int]) -> None:
        """Remove open decisions."""
        self._free += [self._row.pop(i) for i in ids]

    def ids(self) -> Tensor:  # (n,)
        """Return the ids of all open decisions, the oldest first."""
        return torch.tensor(sorted(self._row), dtype=torch.int64, device=self.x.device)

    def gram(self, bandit: Tensor | None) -> Tensor:  # (N,) -> (d, d) or (N, d, d)
        """Return the sum of x x^T over all open decisions, or over those of each requested bandit, in float64."""
        x, owner = self.find(sorted(self._row))
        x = x.double()
        if bandit is None:
            return x.mT @ x
        unique, group = torch.unique(bandit, return_inverse=True)
        at = torch.searchsorted(unique, owner).clamp(max=len(unique) - 1)
        requested = unique[at] == owner
        sums = x.new_zeros(len(unique), x.shape[-1], x.shape[-1])
        x = x[requested]
        return sums.index_add_(0, at[requested], x.unsqueeze(-1) * x.unsqueeze(-2))[group]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        ids = sorted(self._row)
        x, bandit = self.find(ids)
        destination[prefix + "id"] = torch.tensor(ids, dtype=torch.int64, device=x.device)
        destination[prefix + "x"], destination[prefix + "bandit"] = x, bandit

    @torch.inference_mode(False)
    def _load_from_state_dict(self, state_dict, prefix, *args):  # type: ignore[no-untyped-def]
        saved = state_dict.get(prefix + "x")
        if saved is not None and saved.dim() == 2 and saved.shape[1] == self.x.shape[1]:
            self._row.clear()
            self._free.clear()
            for name, buffer in list(self.named_buffers()):
                setattr(self, name, buffer.new_empty(len(saved), *buffer.shape[1:]))
            self._row = {decision: row for row, decision in enumerate(state_dict[prefix + "id"].tolist())}
        super()._load_from_state_dict(state_dict, prefix, *args)
