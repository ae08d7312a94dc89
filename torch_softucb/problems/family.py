"""Families of problems: sizes, horizon, noise and drift drawn at random from given ranges."""

import math
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import normalize

from torch_softucb.checks import check_choice, check_number
from torch_softucb.problems._checks import check_range, check_rotation_dim
from torch_softucb.problems.base import BanditProblem
from torch_softucb.problems.synthetic import synthetic_problem
from torch_softucb.rng import mixed_seed

Range = tuple[float, float]

FEATURES = ("sphere", "correlated", "one_hot")
"""Arms of a member: directions drawn at random; the same with features of unequal size; no features, one theta per arm."""


@dataclass(frozen=True)
class Family:
    """Ranges from which the settings of a :class:`Member` are drawn.

    All ranges are ``(low, high)`` with ``low`` above 0, and draws are uniform on a logarithmic scale.

    Attributes:
        num_arms: range of the number of arms K.
        dim: range of the number of features d.
        horizon: range of the number of rounds T.
        noise_std: range of the standard deviation of the reward noise, which is drawn once per problem.
        drifting: share of the members whose rewards drift, from 0 to 1.
        drift_rate: range of the drift in radians per round, for members that drift.
        discount: range, below 1, of the factor by which a policy discounts old observations per round, for members that
            drift. 1 - discount is drawn on a logarithmic scale.
        features: names from :data:`FEATURES`; each member has one of them. A drifting member has ``sphere``, and a member
            with ``one_hot`` has as many features as arms.
        misfit: standard deviation of the part of the mean rewards that is not linear in the features, relative to that of
            the linear part: 0, or a range for half of the members.
        offset: standard deviation of a number that is added to all rewards of a problem.
        noise_band: largest noise within a member over the smallest, so that no noisy problem dominates the mean regret of a
            member; None lets every member span the whole range.

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
    features: tuple[str, ...] = ("sphere",)
    misfit: Range | float = 0.0
    offset: float = 0.0
    noise_band: float | None = None

    def __post_init__(self) -> None:
        for name in ("num_arms", "dim", "horizon", "noise_std", "drift_rate"):
            check_range("Family", name, getattr(self, name), low=0.0 if name in ("noise_std", "drift_rate") else 1.0)
        if check_number("Family", "drifting", self.drifting, low=0.0, high=1.0, closed_high=True):
            check_rotation_dim("Family", round(self.dim[0]))
        check_range("Family", "discount", self.discount, low=0.0, high=1.0)
        if isinstance(self.features, str) or not self.features:
            raise ValueError(f"Family: features must be a sequence of names, got {self.features!r}; use ('sphere',)")
        for name in self.features:
            check_choice("Family", "features", name, FEATURES)
        if self.misfit != 0:
            check_range("Family", "misfit", self.misfit, low=0.0)
        check_number("Family", "offset", self.offset, low=0.0)
        if self.noise_band is not None:
            check_number("Family", "noise_band", self.noise_band, low=1.0)

    def _noise(self, u: float) -> Range:
        low, high = self.noise_std
        if self.noise_band is None or high <= self.noise_band * low:
            return self.noise_std
        start = _log_uniform((low, high / self.noise_band), u)
        return start, self.noise_band * start

    def member(self, *, seed: int) -> "Member":
        """Draw a member. The same seed draws the same member."""
        generator = torch.Generator().manual_seed(seed)
        u = torch.rand(6, generator=generator, dtype=torch.float64).tolist()
        of_features, of_misfit, of_noise = torch.rand(3, generator=generator, dtype=torch.float64).tolist()
        drifts = u[3] < self.drifting
        low, high = self.discount
        num_arms, dim = round(_log_uniform(self.num_arms, u[0])), round(_log_uniform(self.dim, u[1]))
        features = "sphere" if drifts else self.features[int(of_features * len(self.features))]
        if features == "one_hot":
            num_arms = dim = min(num_arms, max(2, round(self.dim[1])))
        misfit = 0.0 if isinstance(self.misfit, float) or of_misfit < 0.5 else _log_uniform(self.misfit, 2 * of_misfit - 1)
        return Member(
            num_arms=num_arms,
            dim=dim,
            horizon=round(_log_uniform(self.horizon, u[2])),
            noise_std=self._noise(of_noise),
            drift_rate=_log_uniform(self.drift_rate, u[4]) if drifts else 0.0,
            discount=1 - _log_uniform((1 - high, 1 - low), u[5]) if drifts else 1.0,
            features=features,
            misfit=0.0 if drifts or features == "one_hot" else misfit,
            offset=self.offset,
        )


def _log_uniform(bounds: Range, u: float) -> float:
    """Map ``u`` from [0, 1] to the range, on a logarithmic scale."""
    low, high = map(math.log, bounds)
    return math.exp(low + u * (high - low))


@dataclass(frozen=True)
class Member:
    """Settings shared by the problems of one training step or one evaluation.

    Attributes:
        num_arms: number of arms K.
        dim: number of features d.
        horizon: number of rounds T.
        noise_std: range from which the standard deviation of the noise is drawn, once per problem.
        drift_rate: drift of the rewards in radians per round; 0 if they do not drift.
        discount: factor by which a policy discounts old observations per round; 1 if the rewards do not drift.
        features: name from :data:`FEATURES`.
        misfit: standard deviation of the part of the means that is not linear, relative to that of the linear part.
        offset: standard deviation of a number that is added to all rewards of a problem.
    """

    num_arms: int
    dim: int
    horizon: int
    noise_std: Range
    drift_rate: float
    discount: float
    features: str = "sphere"
    misfit: float = 0.0
    offset: float = 0.0

    def problem(self, count: int, *, seed: int) -> BanditProblem:
        """Draw ``count`` synthetic problems, each with its own noise level."""
        generator = torch.Generator().manual_seed(mixed_seed(seed, 0))
        problem = synthetic_problem(
            num_problems=count, num_arms=self.num_arms, dim=self.dim, drift_rate=self.drift_rate, generator=generator
        )
        low, high = map(math.log, self.noise_std)
        noise = torch.exp(low + torch.rand(count, generator=generator) * (high - low))
        arms, means = problem.arms, problem.means
        if self.features == "one_hot":
            arms, means = torch.eye(self.dim), torch.randn(count, self.dim, generator=generator) / math.sqrt(self.dim)
        elif self.features == "correlated":
            arms = normalize(arms / torch.arange(1, self.dim + 1).sqrt(), dim=-1)
            theta = normalize(torch.randn(count, self.dim, 1, generator=generator), dim=-2)
            means = (arms @ theta).squeeze(-1)
        if self.misfit:
            spread = self.misfit * means.std(-1, keepdim=True) if self.num_arms > 1 else 0.0
            means = means + spread * torch.randn(means.shape, generator=generator)
        if self.offset:
            means = means + self.offset * torch.randn(count, 1, generator=generator)
        return replace(problem, arms=arms, means=means, noise_std=noise)
