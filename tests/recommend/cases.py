"""A small two-tower encoder and heads on it."""

import torch
from torch import nn

from torch_softucb import SoftUCBHead, SoftUCBPolicy


class Towers(nn.Module):
    """Features of a user and an item: the product of their embeddings."""

    def __init__(self, dim=4, users=20, items=50, dtype=torch.double):
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.users = nn.Parameter(torch.randn(users, dim, generator=g, dtype=dtype))
        self.items = nn.Parameter(torch.randn(items, dim, generator=g, dtype=dtype))

    def forward(self, user, items):
        return self.users[user].unsqueeze(-2) * self.items[items]


def head(policy=None, *, dim=4, users=None, **settings):
    policy = SoftUCBPolicy(dim, dtype=torch.double) if policy is None else policy
    if users:
        policy.reset(batch_shape=(users,))
    return SoftUCBHead(Towers(dim - settings.get("intercept", False), dtype=policy.dtype), policy, **settings)


def requests(count, candidates, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(20, (count,), generator=g), torch.randint(50, (count, candidates), generator=g)
