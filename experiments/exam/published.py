"""Environments of a published comparison of online model selection, beside its numbers.

C. Dann, C. Gentile, A. Pacchiano, "Data-Driven Online Model Selection With Regret Guarantees", AISTATS 2024: contexts are 10
unit vectors drawn in every round, noise has deviation 1, theta is (0, ..., d - 1), scaled to norm 5 for d = 5 and 100.
Regret after 1,000 rounds, means over 100 runs.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from experiments.exam.settings import Maker
from experiments.tables import Rows

DIMS = (5, 10, 100)
PUBLISHED = {
    "D3RB (published)": (94, 162, 584),
    "ED2RB (published)": (95, 168, 574),
    "Corral (published)": (231, 464, 526),
    "EXP3 (published)": (305, 726, 515),
}
CANDIDATES = 10


def theta_of(dim: int) -> Tensor:  # (d,)
    """Return the theta of an environment."""
    theta = torch.arange(dim, dtype=torch.float64)
    return theta if dim == 10 else 5 * theta / theta.norm()


@torch.no_grad()
def regret(make: Maker, dim: int, *, rounds: int = 1000, runs: int = 100, seed: int = 0) -> Tensor:  # (runs,)
    """Return the regret of each run; all runs are played together, with the same contexts and noise for every policy."""
    policy, theta = make(dim, rounds), theta_of(dim)
    policy.reset(batch_shape=(runs,))
    world, draws = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed + 1)
    total, each = torch.zeros(runs, dtype=torch.float64), torch.arange(runs)
    for _ in range(rounds):
        arms = normalize(torch.randn(runs, CANDIDATES, dim, dtype=torch.float64, generator=world), dim=-1)
        noise = torch.randn(runs, dtype=torch.float64, generator=world)
        means = 1 + arms @ theta
        arm = policy(arms).pick(torch.rand(runs, dtype=torch.float64, generator=draws))
        mean = means[each, arm]
        total += means.amax(-1) - mean
        policy.update(arms[each, arm], mean + noise)
    return total


def published(makers: dict[str, Maker], *, rounds: int = 1000, runs: int = 100) -> Rows:
    """Play policies in the three environments; returns one row per policy and dimension, the published ones too."""
    rows: Rows = [
        {"policy": name, "dim": dim, "regret": float(value), "error": 0.0}
        for name, values in PUBLISHED.items()
        for dim, value in zip(DIMS, values, strict=True)
    ]
    for name, make in makers.items():
        for dim in DIMS:
            found = regret(make, dim, rounds=rounds, runs=runs)
            error = float(found.std() / len(found) ** 0.5)
            rows.append({"policy": name, "dim": dim, "regret": float(found.mean()), "error": error})
    return rows
