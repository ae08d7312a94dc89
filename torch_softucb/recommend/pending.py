"""Decisions whose reward has not come yet."""

from typing import Any

import torch
from torch import Tensor, nn


class Pending(nn.Module):
    """What the feedback of open decisions will need: their features and their bandit, by decision id.

    Rows of a few tensors that grow as needed; a decision that is closed frees its row. ``state_dict`` holds the open ones.
    """

    x: Tensor
    bandit: Tensor

    def __init__(self, dim: int, *, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.register_buffer("id", torch.zeros(0, dtype=torch.int64, device=device))
        self.register_buffer("x", torch.zeros(0, dim, dtype=dtype, device=device))
        self.register_buffer("bandit", torch.zeros(0, dtype=torch.int64, device=device))
        self._row: dict[int, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, decision: int) -> bool:
        return decision in self._row

    def add(self, ids: Tensor, x: Tensor, bandit: Tensor | None) -> None:  # (n,), (n, d), (n,)
        names = ids.tolist()
        if len(self._free) < len(names):
            self._grow(max(64, len(self.x), len(names)))
        rows = [self._free.pop() for _ in names]
        at = torch.tensor(rows, dtype=torch.int64, device=self.x.device)
        self.get_buffer("id")[at] = ids
        self.x[at] = x.detach().to(self.x)
        self.bandit[at] = -1 if bandit is None else bandit
        self._row.update(zip(names, rows, strict=True))

    def _grow(self, by: int) -> None:
        start = len(self.x)
        for name, buffer in list(self.named_buffers()):
            setattr(self, name, torch.cat((buffer, buffer.new_zeros(by, *buffer.shape[1:]))))
        self._free += range(start + by - 1, start - 1, -1)

    def find(self, ids: list[int]) -> tuple[Tensor, Tensor]:  # (n, d), (n,)
        """Features and bandits of open decisions."""
        at = torch.tensor([self._row[i] for i in ids], dtype=torch.int64, device=self.x.device)
        return self.x[at], self.bandit[at]

    def close(self, ids: list[int]) -> None:
        self._free += [self._row.pop(i) for i in ids]

    def ids(self) -> Tensor:  # (n,)
        return torch.tensor(sorted(self._row), dtype=torch.int64, device=self.x.device)

    def open_rows(self) -> tuple[Tensor, Tensor]:  # (n, d), (n,)
        """Features and bandits of all open decisions, the oldest first."""
        return self.find(sorted(self._row))

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        names = sorted(self._row)
        x, bandit = self.find(names)
        destination[prefix + "id"] = torch.tensor(names, dtype=torch.int64, device=x.device)
        destination[prefix + "x"], destination[prefix + "bandit"] = x, bandit

    @torch.inference_mode(False)
    def _load_from_state_dict(self, state_dict, prefix, *args):  # type: ignore[no-untyped-def]
        saved = state_dict.get(prefix + "x")
        if saved is not None and saved.dim() == 2 and saved.shape[1] == self.x.shape[1]:
            self._row.clear()
            self._free.clear()
            for name, buffer in list(self.named_buffers()):
                setattr(self, name, buffer.new_empty(len(saved), *buffer.shape[1:]))
            self._row = {name: row for row, name in enumerate(state_dict[prefix + "id"].tolist())}
        super()._load_from_state_dict(state_dict, prefix, *args)
