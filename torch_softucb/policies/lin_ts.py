"""Linear Thompson sampling: the best arm of a parameter vector drawn around theta_hat."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Self, Unpack

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.policies._checks import check_keywords
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate, NativeRule
from torch_softucb.policies.sampled import sampled_decision
from torch_softucb.policies.statistics import PolicyKwargs


class RunningScale(NamedTuple):
    """Agrawal & Goyal's scale at the current round t, v = R sqrt(9 d log(t / fail_prob)).

    Attributes:
        subgaussian_r: R of the reward noise.
        fail_prob: probability that the regret bound fails.
    """

    subgaussian_r: float
    fail_prob: float


class LinTS(BanditPolicy):
    """Policy that draws theta ~ N(theta_hat, scale^2 V^-1) and plays its best arm.

    ``decision.probs`` is None: the probability that an arm is the best of a draw has no closed form.

    Args:
        dim: number of features d.
        scale: v, the scale of the posterior: a number, or a :class:`RunningScale`. :meth:`theoretical` sets either.
        **policy_kwargs: ``ridge_alpha``, ``refresh_every``, ``prior``, ``device``, ``dtype``, as in
            :class:`~torch_softucb.BanditPolicy`.

    S. Agrawal, N. Goyal: Thompson sampling for contextual bandits with linear payoffs, ICML 2013.

    Example:
        >>> policy = LinTS(2, scale=0.0)
        >>> policy.update(torch.tensor([0.0, 1.0]), torch.tensor(1.0))
        >>> policy(torch.eye(2)).sample()
        tensor(1)
    """

    def __init__(self, dim: int, *, scale: float | RunningScale = 1.0, **policy_kwargs: Unpack[PolicyKwargs]) -> None:
        check_keywords("LinTS", policy_kwargs, PolicyKwargs.__annotations__)
        super().__init__(dim, **policy_kwargs)
        self.running = scale if isinstance(scale, RunningScale) else None
        first = F.thompson_scale(dim=self.dim, horizon=1, **scale._asdict()) if isinstance(scale, RunningScale) else scale
        self.scale = check_number("LinTS", "scale", first, low=0.0)

    @classmethod
    def theoretical(
        cls,
        dim: int,
        *,
        subgaussian_r: float,
        fail_prob: float,
        horizon: int | None = None,
        **policy_kwargs: Unpack[PolicyKwargs],
    ) -> Self:
        """Build LinTS with Agrawal & Goyal's scale.

        Args:
            dim: number of features d.
            subgaussian_r: R of the reward noise.
            fail_prob: probability that the regret bound fails.
            horizon: number of rounds T; by default the scale grows with the current round t.
            **policy_kwargs: as in the constructor.
        """
        scale = RunningScale(subgaussian_r, fail_prob)
        if horizon is None:
            return cls(dim, scale=scale, **policy_kwargs)
        return cls(dim, scale=F.thompson_scale(dim=dim, horizon=horizon, **scale._asdict()), **policy_kwargs)

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of the constructor that, with ``dim``, reproduce the policy without its statistics."""
        return {**super().settings, "scale": self.scale if self.running is None else self.running}

    @property
    def normals_per_decision(self) -> int:
        """Standard normal numbers per decision: one per feature."""
        return self.dim

    def _scale_at(self, num_observations: Tensor) -> Tensor:
        if self.running is None:
            return torch.full((), self.scale, dtype=num_observations.dtype, device=num_observations.device)
        r, fail = self.running.subgaussian_r, self.running.fail_prob
        return F.thompson_scale(dim=self.dim, horizon=num_observations + 1, subgaussian_r=r, fail_prob=fail)

    def native_rule(self, num_observations: Tensor) -> NativeRule:  # (n,)
        """Return the decision rule for the native kernel."""
        return NativeRule("thompson", self._scale_at(num_observations.unsqueeze(-1)), by_round=self.running is not None)

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        """Draw theta and play its best arm."""
        mu_hat = estimate.mu_hat
        scale = self._scale_at(estimate.num_observations.to(mu_hat.dtype)).unsqueeze(-1)
        draw = partial(_draw_index, mu_hat, scale, estimate.perturb)
        return sampled_decision("LinTS", estimate, mask, draw, num_normals=self.dim)


def _draw_index(
    mu_hat: Tensor, scale: Tensor, perturb: Callable[[Tensor], Tensor], z: Tensor
) -> Tensor:  # (*B, d) -> (*B, K)
    return mu_hat + scale * perturb(z)
