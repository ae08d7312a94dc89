"""A small two-tower encoder, heads on it, and a log of what they served."""

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
    settings = {"seed": 0, "replica": 0} | settings
    if users:
        policy.reset(batch_shape=(users,))
    return SoftUCBHead(Towers(dim - settings.get("intercept", False), dtype=policy.dtype), policy, **settings)


def requests(count, candidates, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(20, (count,), generator=g), torch.randint(50, (count, candidates), generator=g)


def state_of(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def same_state(one, other):
    return all(value.equal(other[name]) for name, value in one.items())


def fill(log, ours, steps=6, k=None, features=True, seed=0):
    """Serve and log requests, with a reward for every second item; returns (served, user, items, reward) per step."""
    users = bool(ours.policy.batch_shape)
    kept = []
    for step in range(steps):
        user, items = requests(5, 4 + step % 2, seed=seed + step)
        decision = ours(user, items, bandit=user if users else None)
        served = ours.serve(decision, k=k)
        log.decisions(served, version=step, context=user, candidates=items, features=decision.features if features else None)
        ids = served.id.reshape(-1)[::2]
        reward = torch.randn(len(ids), dtype=torch.double, generator=torch.Generator().manual_seed(seed + step))
        ours.feedback(ids, reward)
        log.rewards(ids, reward)
        kept.append((served, user, items, reward))
    return kept
