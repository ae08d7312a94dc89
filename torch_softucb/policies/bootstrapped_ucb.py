"""Bootstrapped UCB: the width of the bonus is a quantile of a multiplier bootstrap of the residuals."""

from typing import Unpack

import torch
from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.functional.softmax import _greedy_probabilities
from torch_softucb.policies._checks import check_keywords
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.fixed_set import ArmPolicy, gram
from torch_softucb.policies.statistics import PolicyKwargs


class BootstrappedUCB(ArmPolicy):
    """Policy that plays argmax_i mu_hat_i + q_i + correction, where q_i is a quantile of x_i . V^-1 sum_s w_s e_s x_s.

    e_s are residuals and w_s random multipliers. With normal multipliers the bootstrap distribution given the history is
    normal with standard deviation sqrt(sum_k (x_i . V^-1 x_k)^2 Q_k), where Q_k is the sum of squared residuals of arm k.
    Its quantile at 1 - fail (1 - split) needs no draws; fail = 1 / (1 + t), as in the original paper. The second-order
    correction, there sqrt(log(2 / (fail split)) / n) times a confidence radius, is
    subgaussian_r width_i^2 sqrt(2 log(1 / fail) log(2 / (fail split))); width_i is the linear counterpart of 1 / sqrt(n).

    Args:
        dim: number of features d.
        num_arms: number of arms K.
        split: share of the failure probability that goes to the correction; delta of the original paper.
        subgaussian_r: R of the reward noise, in the correction.
        **policy_kwargs: ``ridge_alpha``, ``refresh_every``, ``prior``, ``device``, ``dtype``, as in
            :class:`~torch_softucb.BanditPolicy`.

    B. Hao, Y. Abbasi-Yadkori, Z. Wen, G. Cheng: Bootstrapping upper confidence bound, NeurIPS 2019; linear version.

    Example:
        >>> policy = BootstrappedUCB(2, num_arms=2, subgaussian_r=0.5)
        >>> policy(torch.eye(2)).probs  # no observations: equal
        tensor([0.5000, 0.5000])
    """

    own_settings = ("split", "subgaussian_r")

    def __init__(
        self,
        dim: int,
        num_arms: int,
        *,
        split: float = 0.1,
        subgaussian_r: float = 0.5,
        **policy_kwargs: Unpack[PolicyKwargs],
    ) -> None:
        check_keywords("BootstrappedUCB", policy_kwargs, PolicyKwargs.__annotations__)
        super().__init__(dim, num_arms, **policy_kwargs)
        self.split = check_number("BootstrappedUCB", "split", split, low=0.0, high=1.0, open_low=True)
        self.subgaussian_r = check_number("BootstrappedUCB", "subgaussian_r", subgaussian_r, low=0.0)

    def deviation(self, estimate: Estimate) -> Tensor:  # (*B, K)
        """Return the standard deviation of each arm's bootstrapped mean, given the history."""
        count, total, squares = self._moments_of(estimate)
        learned = estimate.learned_mean
        residual_sq = (squares - 2 * learned * total + count * learned.square()).clamp(min=0)
        return (gram(estimate).square() @ residual_sq.unsqueeze(-1)).squeeze(-1).sqrt()

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        """Play the arm with the largest bootstrapped upper bound."""
        mu_hat, width = estimate.mu_hat, estimate.width
        deviation = self.deviation(estimate)
        fail = 1 / (1 + (estimate.num_observations.to(mu_hat.dtype) + 1).unsqueeze(-1))
        quantile = torch.special.ndtri(1 - fail * (1 - self.split))
        correction = torch.sqrt(2 * torch.log(1 / fail) * torch.log(2 / (fail * self.split)))
        index = mu_hat + quantile * deviation + self.subgaussian_r * width.square() * correction
        return Decision(
            probs=_greedy_probabilities(index, mask), index=index, mu_hat=estimate.reported_mean, width=width, mask=mask
        )
