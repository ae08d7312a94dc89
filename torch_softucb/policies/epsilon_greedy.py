"""Epsilon-greedy on the ridge estimate."""

from typing import Unpack

import torch
from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.functional.softmax import _greedy_probabilities
from torch_softucb.policies._checks import check_keywords
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate, NativeRule
from torch_softucb.policies.statistics import PolicyKwargs


class EpsilonGreedy(BanditPolicy):
    """Policy that plays the arm with the largest mu_hat or, with probability epsilon, any allowed arm; ties share equally.

    Args:
        dim: number of features d.
        epsilon: probability of a uniformly random arm.
        **policy_kwargs: ``ridge_alpha``, ``refresh_every``, ``prior``, ``device``, ``dtype``, as in
            :class:`~torch_softucb.BanditPolicy`.

    R. S. Sutton, A. G. Barto: Reinforcement Learning, 2nd ed. 2018, ch. 2.

    Example:
        >>> policy = EpsilonGreedy(2, epsilon=0.1)
        >>> policy.update(torch.tensor([1.0, 0.0]), torch.tensor(1.0))
        >>> policy(torch.eye(2)).probs
        tensor([0.9500, 0.0500])
    """

    own_settings = ("epsilon",)

    def __init__(self, dim: int, *, epsilon: float = 0.05, **policy_kwargs: Unpack[PolicyKwargs]) -> None:
        check_keywords("EpsilonGreedy", policy_kwargs, PolicyKwargs.__annotations__)
        super().__init__(dim, **policy_kwargs)
        self.epsilon = check_number("EpsilonGreedy", "epsilon", epsilon, low=0.0, high=1.0, closed_high=True)

    def native_rule(self, num_observations: Tensor) -> NativeRule:  # (n,)
        """Return the decision rule for the native kernel."""
        no_bonus = torch.zeros((), dtype=num_observations.dtype, device=num_observations.device)
        return NativeRule("greedy", no_bonus, epsilon=self.epsilon)

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        """Mix the greedy and the uniform distribution."""
        mu_hat = estimate.mu_hat
        greedy = _greedy_probabilities(mu_hat, mask)
        allowed = torch.ones_like(greedy) if mask is None else mask.expand(greedy.shape).to(greedy.dtype)
        probs = (1 - self.epsilon) * greedy + self.epsilon * allowed / allowed.sum(-1, keepdim=True)
        return Decision(probs=probs, index=mu_hat, mu_hat=estimate.reported_mean, width=estimate.width, mask=mask)
