"""LinUCB / OFUL: the arm of the largest upper confidence bound (Eq. 4)."""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.functional.softmax import _greedy_probabilities
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate, NativeRule


class LinUCB(BanditPolicy):
    """Plays argmax_i mu_hat_i + beta width_i; arms that tie share the probability.

    Args:
        dim: number of features d.
        beta: fixed confidence width. :meth:`theoretical` sets it by Eq. 5 instead.
        ridge_alpha: ridge weight alpha.

    L. Chu et al.: Contextual bandits with linear payoff functions, AISTATS 2011; Y. Abbasi-Yadkori et al.: Improved
    algorithms for linear stochastic bandits, NeurIPS 2011.

    Example:
        >>> policy = LinUCB(2, beta=1.0)
        >>> policy.update(torch.tensor([1.0, 0.0]), torch.tensor(0.2))  # UCB: 0.1 + sqrt(1/2), and 1
        >>> policy(torch.eye(2)).probs
        tensor([0., 1.])
    """

    def __init__(
        self,
        dim: int,
        *,
        beta: float = 1.0,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, ridge_alpha=ridge_alpha, refresh_every=refresh_every, device=device, dtype=dtype)
        self.fixed_beta = check_number("LinUCB", "beta", beta, low=0.0)
        self._running: Callable[..., Tensor] | None = None

    @classmethod
    def theoretical(
        cls,
        dim: int,
        *,
        subgaussian_r: float,
        fail_prob: float,
        horizon: int | None = None,
        theta_bound: float = 1.0,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> "LinUCB":
        """LinUCB at Eq. 5's radius: with T when ``horizon`` is given, else with the running round t."""
        radius = partial(
            F.beta_upper_bound,
            dim=dim,
            subgaussian_r=subgaussian_r,
            fail_prob=fail_prob,
            ridge_alpha=ridge_alpha,
            theta_bound=theta_bound,
        )
        beta = radius(horizon=1 if horizon is None else horizon)
        policy = cls(dim, beta=beta, ridge_alpha=ridge_alpha, refresh_every=refresh_every, device=device, dtype=dtype)
        policy._running = cast("Callable[..., Tensor]", radius) if horizon is None else None
        return policy

    def _radius(self, num_observations: Tensor) -> Tensor:
        if self._running is None:
            return torch.full((), self.fixed_beta, dtype=num_observations.dtype, device=num_observations.device)
        return self._running(horizon=num_observations + 1)

    def native_rule(self, num_observations: Tensor) -> NativeRule:
        return NativeRule("greedy", self._radius(num_observations.unsqueeze(-1)), by_round=self._running is not None)

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        mu_hat, width, num_observations = estimate[:3]
        beta = self._radius(num_observations.to(mu_hat.dtype))
        index = mu_hat + beta.unsqueeze(-1) * width  # Eq. 4
        return Decision(_greedy_probabilities(index, mask), index, mu_hat, width, mask, beta)
