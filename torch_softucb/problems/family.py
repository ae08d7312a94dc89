"""Families of problems: numbers of arms, features and rounds, noise and drift, drawn for every step."""

import math
from dataclasses import dataclass, replace

import torch

from torch_softucb.checks import check_number, check_range
from torch_softucb.problems._checks import check_plane
from torch_softucb.problems.base import BanditProblem
from torch_softucb.problems.synthetic import synthetic_problem
from torch_softucb.rng import mixed_seed

Range = tuple[float, float]


@dataclass(frozen=True)
class Family:
    """Ranges that a member's numbers are drawn from, evenly on a logarithmic scale; noise is drawn for every problem.

    Args:
        num_arms: K.
        dim: d.
        horizon: T.
        noise_std: standard deviation of the reward noise.
        drifting: share of members whose rewards drift.
        turn: by how many radians a round theta turns in those.
        discount: what share of its knowledge a policy keeps a round in those; what it forgets is drawn evenly on a
            logarithmic scale.

    Example:
        >>> member = Family(dim=(5, 30)).member(seed=0)
        >>> 5 <= member.dim <= 30
        True
        >>> member.problem(4, seed=0).means.shape == (4, member.num_arms)
        True
    """

    num_arms: Range = (10, 200)
    dim: Range = (5, 30)
    horizon: Range = (256, 4096)
    noise_std: Range = (0.05, 2.0)
    drifting: float = 0.0
    drift_rate: Range = (0.001, 0.01)
    discount: Range = (0.98, 0.995)

    def __post_init__(self) -> None:
        for name in ("num_arms", "dim", "horizon", "noise_std", "drift_rate"):
            check_range("Family", name, getattr(self, name), low=0.0 if name in ("noise_std", "drift_rate") else 1.0)
        if check_number("Family", "drifting", self.drifting, low=0.0, high=1.0, closed_high=True):
            check_plane("Family", round(self.dim[0]))
        check_range("Family", "discount", self.discount, low=0.0, high=1.0)

    def member(self, *, seed: int) -> "Member":
        """The member that this seed draws."""
        u = torch.rand(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).tolist()
        k, d, t = (round(_between(r, x)) for r, x in zip((self.num_arms, self.dim, self.horizon), u, strict=False))
        drifts = u[3] < self.drifting
        drift_rate = _between(self.drift_rate, u[4]) if drifts else 0.0
        low, high = self.discount
        return Member(k, d, t, self.noise_std, drift_rate, 1 - _between((1 - high, 1 - low), u[5]) if drifts else 1.0)


def _between(bounds: Range, share: float) -> float:
    low, high = map(math.log, bounds)
    return math.exp(low + share * (high - low))


@dataclass(frozen=True)
class Member:
    """One size of problem."""

    num_arms: int
    dim: int
    horizon: int
    noise_std: Range
    drift_rate: float
    discount: float

    def problem(self, count: int, *, seed: int) -> BanditProblem:
        """``count`` problems of this size, each with its own noise."""
        generator = torch.Generator().manual_seed(mixed_seed(seed, 0))
        problem = synthetic_problem(
            num_problems=count, num_arms=self.num_arms, dim=self.dim, drift_rate=self.drift_rate, generator=generator
        )
        low, high = map(math.log, self.noise_std)
        noise = torch.exp(low + torch.rand(count, generator=generator) * (high - low))
        return replace(problem, noise_std=noise)
