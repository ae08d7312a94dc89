"""LinUCB / OFUL: the arm with the largest upper confidence bound (Eq. 4)."""

from typing import Any, NamedTuple, Self, Unpack

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.functional.softmax import _greedy_probabilities
from torch_softucb.policies._checks import check_keywords
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate, NativeRule
from torch_softucb.policies.statistics import PolicyKwargs


class RunningRadius(NamedTuple):
    """Radius of Eq. 5 at the current round t.

    Attributes:
        subgaussian_r: R of the reward noise.
        fail_prob: probability that a confidence bound fails.
        theta_bound: bound on the length of the parameter vector.
    """

    subgaussian_r: float
    fail_prob: float
    theta_bound: float = 1.0


class LinUCB(BanditPolicy):
    """Policy that plays argmax_i mu_hat_i + beta width_i; tied arms share the probability.

    Args:
        dim: number of features d.
        beta: confidence width: a number, or a :class:`RunningRadius`. :meth:`theoretical` sets either by Eq. 5.
        **policy_kwargs: ``ridge_alpha``, ``refresh_every``, ``prior``, ``device``, ``dtype``, as in
            :class:`~torch_softucb.BanditPolicy`.

    L. Chu et al.: Contextual bandits with linear payoff functions, AISTATS 2011; Y. Abbasi-Yadkori et al.: Improved
    algorithms for linear stochastic bandits, NeurIPS 2011.

    Example:
        >>> policy = LinUCB(2, beta=1.0)
        >>> policy.update(torch.tensor([1.0, 0.0]), torch.tensor(0.2))  # UCB: 0.1 + sqrt(1/2), and 1
        >>> policy(torch.eye(2)).probs
        tensor([0., 1.])
    """

    def __init__(self, dim: int, *, beta: float | RunningRadius = 1.0, **policy_kwargs: Unpack[PolicyKwargs]) -> None:
        check_keywords("LinUCB", policy_kwargs, PolicyKwargs.__annotations__)
        super().__init__(dim, **policy_kwargs)
        self.running = beta if isinstance(beta, RunningRadius) else None
        if isinstance(beta, RunningRadius):
            beta = F.beta_upper_bound(dim=self.dim, horizon=1, ridge_alpha=self.ridge_alpha, **beta._asdict())
        self.fixed_beta = check_number("LinUCB", "beta", beta, low=0.0)

    @classmethod
    def theoretical(
        cls,
        dim: int,
        *,
        subgaussian_r: float,
        fail_prob: float,
        horizon: int | None = None,
        theta_bound: float = 1.0,
        **policy_kwargs: Unpack[PolicyKwargs],
    ) -> Self:
        """Build LinUCB with the radius of Eq. 5.

        Args:
            dim: number of features d.
            subgaussian_r: R of the reward noise.
            fail_prob: probability that a confidence bound fails.
            horizon: number of rounds T; by default the radius grows with the current round t.
            theta_bound: bound on the length of the parameter vector.
            **policy_kwargs: as in the constructor.
        """
        radius = RunningRadius(subgaussian_r, fail_prob, theta_bound)
        if horizon is None:
            return cls(dim, beta=radius, **policy_kwargs)
        alpha = policy_kwargs.get("ridge_alpha", 1.0)
        beta = F.beta_upper_bound(dim=dim, horizon=horizon, ridge_alpha=alpha, **radius._asdict())  # Eq. 5
        return cls(dim, beta=beta, **policy_kwargs)

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of the constructor that, with ``dim``, reproduce the policy without its statistics."""
        return {**super().settings, "beta": self.fixed_beta if self.running is None else self.running}

    def _radius_at(self, num_observations: Tensor) -> Tensor:
        if self.running is None:
            return torch.full((), self.fixed_beta, dtype=num_observations.dtype, device=num_observations.device)
        return F.beta_upper_bound(  # Eq. 5
            dim=self.dim,
            horizon=num_observations + 1,
            ridge_alpha=self.ridge_alpha,
            subgaussian_r=self.running.subgaussian_r,
            fail_prob=self.running.fail_prob,
            theta_bound=self.running.theta_bound,
        )

    def native_rule(self, num_observations: Tensor) -> NativeRule:  # (n,)
        """Return the decision rule for the native kernel."""
        return NativeRule("greedy", self._radius_at(num_observations.unsqueeze(-1)), by_round=self.running is not None)

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        """Play the arm with the largest upper confidence bound."""
        mu_hat, width = estimate.mu_hat, estimate.width
        beta = self._radius_at(estimate.num_observations.to(mu_hat.dtype))
        index = mu_hat + beta.unsqueeze(-1) * width  # Eq. 4
        probs = _greedy_probabilities(index, mask)
        return Decision(probs=probs, index=index, mu_hat=estimate.reported_mean, width=width, mask=mask, beta=beta)
