"""Epsilon-greedy on the ridge estimate."""

import torch
from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.functional.softmax import _greedy_probabilities
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate, NativeRule


class EpsilonGreedy(BanditPolicy):
    """The arm of the largest mu_hat with probability 1 - epsilon, else any allowed arm; arms that tie share.

    R. S. Sutton, A. G. Barto: Reinforcement Learning, 2nd ed. 2018, ch. 2.

    Example:
        >>> policy = EpsilonGreedy(2, epsilon=0.1)
        >>> policy.update(torch.tensor([1.0, 0.0]), torch.tensor(1.0))
        >>> policy(torch.eye(2)).probs
        tensor([0.9500, 0.0500])
    """

    def __init__(
        self,
        dim: int,
        *,
        epsilon: float = 0.05,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, ridge_alpha=ridge_alpha, refresh_every=refresh_every, device=device, dtype=dtype)
        self.epsilon = check_number("EpsilonGreedy", "epsilon", epsilon, low=0.0, high=1.0, closed_high=True)

    def native_rule(self, num_observations: Tensor) -> NativeRule:
        return NativeRule(
            "greedy", torch.zeros((), dtype=num_observations.dtype, device=num_observations.device), epsilon=self.epsilon
        )

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        mu_hat, width = estimate.mu_hat, estimate.width
        greedy = _greedy_probabilities(mu_hat, mask)
        allowed = torch.ones_like(greedy) if mask is None else mask.expand(greedy.shape).to(greedy.dtype)
        probs = (1 - self.epsilon) * greedy + self.epsilon * allowed / allowed.sum(-1, keepdim=True)
        return Decision(probs, mu_hat, mu_hat, width, mask)
