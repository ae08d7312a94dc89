"""Families of problems: sizes, horizon, noise and drift drawn at random from given ranges."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import normalize

from torch_softucb.checks import check_choice, check_number
from torch_softucb.problems._checks import check_range, check_rotation_dim
from torch_softucb.problems.base import BanditProblem
from torch_softucb.problems.contextual import ContextualProblem, contextual_problem
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
        changing: share of the members, other than drifting ones, whose candidates change: each round offers K items of a
            pool.
        pool: range of the number of items in the pool over K.
        delayed: share of the members with changing candidates whose rewards are late.
        delay: range of the number of rounds by which they are late.
        with_prior: share of the members, other than drifting ones, for which the distribution of theta is known: see
            :attr:`Member.known`.
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
    changing: float = 0.0
    pool: Range = (1.5, 10.0)
    delayed: float = 0.0
    delay: Range = (1, 20)
    with_prior: float = 0.0

    def __post_init__(self) -> None:
        for name in ("num_arms", "dim", "horizon", "noise_std", "drift_rate"):
            check_range("Family", name, getattr(self, name), low=0.0 if name in ("noise_std", "drift_rate") else 1.0)
        if check_number("Family", "drifting", self.drifting, low=0.0, high=1.0, closed_high=True):
            check_rotation_dim("Family", round(self.dim[0]))
        for name in ("changing", "delayed", "with_prior"):
            check_number("Family", name, getattr(self, name), low=0.0, high=1.0, closed_high=True)
        for name in ("pool", "delay"):
            check_range("Family", name, getattr(self, name), low=1.0)
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
        of_changing, of_pool, of_delayed, of_delay, of_prior, known = torch.rand(6, generator=generator).tolist()
        drifts = u[3] < self.drifting
        changes = of_changing < self.changing and not drifts
        late = changes and of_delayed < self.delayed
        low, high = self.discount
        num_arms, dim = round(_log_uniform(self.num_arms, u[0])), round(_log_uniform(self.dim, u[1]))
        features = "sphere" if drifts else self.features[int(of_features * len(self.features))]
        if features == "one_hot":
            num_arms = dim = min(num_arms, max(2, round(self.dim[1])))
        items = math.ceil(num_arms * _log_uniform(self.pool, of_pool)) if changes else 0
        if features == "one_hot" and changes:  # as many items as features, of which some are offered
            num_arms, items = max(2, num_arms * dim // items), dim
        misfit = (
            0.0 if isinstance(self.misfit, int | float) or of_misfit < 0.5 else _log_uniform(self.misfit, 2 * of_misfit - 1)
        )
        return Member(
            num_arms=num_arms,
            dim=dim,
            horizon=round(_log_uniform(self.horizon, u[2])),
            noise_std=self._noise(of_noise),
            drift_rate=_log_uniform(self.drift_rate, u[4]) if drifts else 0.0,
            discount=1 - _log_uniform((1 - high, 1 - low), u[5]) if drifts else 1.0,
            features=features,
            misfit=0.0 if drifts or features == "one_hot" else misfit,
            offset=0.0 if of_prior < self.with_prior and not drifts else self.offset,
            items=items,
            delay=round(_log_uniform(self.delay, of_delay)) if late else 0,
            known=0.05 + 0.9 * known if of_prior < self.with_prior and not drifts else None,
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
        items: number of items of which ``num_arms`` are offered per round; 0 if the arms are fixed.
        delay: rounds by which rewards are late.
        known: share of the squared length of theta that is in its mean over problems, if that distribution is known; None
            if not. The rest has variances that fall from feature to feature.
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
    items: int = 0
    delay: int = 0
    known: float | None = None

    def theta_distribution(self, *, seed: int) -> tuple[Tensor, Tensor] | None:  # (d,), (d,)
        """Return mean and standard deviations of the components of theta; None if the distribution is not known."""
        if self.known is None:
            return None
        generator = torch.Generator().manual_seed(mixed_seed(seed, 3))
        mean = normalize(torch.randn(self.dim, generator=generator), dim=0) * math.sqrt(self.known)
        variances = torch.ones(self.dim) if self.features == "one_hot" else 1 / torch.arange(1.0, self.dim + 1)
        return mean, ((1 - self.known) * variances / variances.sum()).sqrt()

    def problem(self, count: int, *, seed: int) -> BanditProblem:
        """Draw ``count`` synthetic problems, each with its own noise level."""
        generator = torch.Generator().manual_seed(mixed_seed(seed, 0))
        problem = synthetic_problem(
            num_problems=count, num_arms=self.num_arms, dim=self.dim, drift_rate=self.drift_rate, generator=generator
        )
        low, high = map(math.log, self.noise_std)
        noise = torch.exp(low + torch.rand(count, generator=generator) * (high - low))
        arms, means = problem.arms, problem.means
        distribution = self.theta_distribution(seed=seed)
        if self.items or distribution is not None:
            return self._pooled(count, noise, distribution, generator)
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

    def _pooled(
        self,
        count: int,
        noise: Tensor,  # (count,)
        distribution: tuple[Tensor, Tensor] | None,
        generator: torch.Generator,
    ) -> ContextualProblem:
        """Draw problems whose items are the same for all of them, with changing candidates or a known distribution."""
        size = self.items or self.num_arms
        items = torch.randn(size, self.dim, generator=generator)
        if self.features == "correlated":
            items = items / torch.arange(1, self.dim + 1).sqrt()
        items = torch.eye(self.dim) if self.features == "one_hot" else normalize(items, dim=-1)
        theta = torch.randn(count, self.dim, generator=generator)
        theta = normalize(theta, dim=-1) if distribution is None else distribution[0] + distribution[1] * theta
        means = theta @ items.T
        if self.misfit:
            spread = self.misfit * means.std(-1, keepdim=True) if size > 1 else 0.0
            means = means + spread * torch.randn(means.shape, generator=generator)
        if self.offset:
            means = means + self.offset * torch.randn(count, 1, generator=generator)
        candidates = self.num_arms if self.items else None
        return contextual_problem(items, means=means, candidates=candidates, noise_std=noise, delay=self.delay)
