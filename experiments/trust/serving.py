"""A small recommender for the measurements: a head over embeddings, requests, and comparisons of state."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from torch_softucb import BanditPolicy, SoftUCBHead, SoftUCBPolicy

DIM, ITEMS, USERS = 4, 50, 20


def embedding(dim: int = DIM) -> nn.Embedding:
    """Return the encoder: fixed float64 features of each item."""
    features = torch.randn(ITEMS, dim, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    return nn.Embedding(ITEMS, dim, _weight=features)


def new_head(policy: BanditPolicy | None = None, *, users: int | None = None, **settings: Any) -> SoftUCBHead:
    """Return a head, for one bandit or for one per user."""
    policy = SoftUCBPolicy(DIM, dtype=torch.double) if policy is None else policy
    if users is not None:
        policy.reset(batch_shape=(users,))
    return SoftUCBHead(embedding(policy.dim - bool(settings.get("intercept"))), policy, **settings)


def request(count: int, candidates: int, seed: int) -> tuple[Tensor, Tensor]:  # (count,), (count, candidates)
    """Draw users and candidate items."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(USERS, (count,), generator=generator), torch.randint(
        ITEMS, (count, candidates), generator=generator
    )


def state_bytes(state: Mapping[str, Any]) -> dict[str, bytes]:
    """Return a ``state_dict`` as bytes, for a bitwise comparison."""
    return {
        name: value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
        for name, value in state.items()
        if isinstance(value, Tensor)
    }
