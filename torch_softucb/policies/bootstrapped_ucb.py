"""Bootstrapped UCB: the width of the bonus is a quantile of a multiplier bootstrap of the residuals."""

import torch
from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.functional.softmax import _greedy_probabilities
from torch_softucb.policies._checks import check_arms_fit
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.fixed_set import ArmPolicy, gram


class BootstrappedUCB(ArmPolicy):
    """Plays argmax_i mu_hat_i + quantile of x_i . V^-1 sum_s w_s e_s x_s + correction: residuals e_s, multipliers w_s.

    With normal multipliers the bootstrap's distribution given the history is normal with standard deviation
    sqrt(sum_k (x_i . V^-1 x_k)^2 Q_k), Q_k the sum of arm k's squared residuals: its quantile at 1 - fail (1 - split)
    needs no draws. fail = 1 / (1 + t), as in the source. The second-order correction, there sqrt(log(2 / (fail split)) / n)
    times a confidence radius, is subgaussian_r width_i^2 sqrt(2 log(1 / fail) log(2 / (fail split))): width_i is the linear
    1 / sqrt(n).

    Args:
        dim: number of features d.
        num_arms: K.
        split: delta of the source: share of the failure probability that the correction gets.
        subgaussian_r: R of the reward noise, in the correction.

    B. Hao, Y. Abbasi-Yadkori, Z. Wen, G. Cheng: Bootstrapping upper confidence bound, NeurIPS 2019; linear version.

    Example:
        >>> policy = BootstrappedUCB(2, num_arms=2, subgaussian_r=0.5)
        >>> policy(torch.eye(2)).probs  # nothing known: equal
        tensor([0.5000, 0.5000])
    """

    def __init__(
        self,
        dim: int,
        num_arms: int,
        *,
        split: float = 0.1,
        subgaussian_r: float = 0.5,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        kind = {"refresh_every": refresh_every, "device": device, "dtype": dtype}
        super().__init__(dim, num_arms, ridge_alpha=ridge_alpha, **kind)  # type: ignore[arg-type]
        self.split = check_number("BootstrappedUCB", "split", split, low=0.0, high=1.0, open_low=True)
        self.subgaussian_r = check_number("BootstrappedUCB", "subgaussian_r", subgaussian_r, low=0.0)

    def deviation(self, estimate: Estimate) -> Tensor:  # (*B, K)
        """Standard deviation of every arm's bootstrapped mean, given the history."""
        count, total, squares = (part.to(estimate.mu_hat.dtype) for part in self.moments(estimate.memory))
        mu_hat = estimate.mu_hat
        residual_sq = (squares - 2 * mu_hat * total + count * mu_hat.square()).clamp(min=0)
        return (gram(estimate).square() @ residual_sq.unsqueeze(-1)).squeeze(-1).sqrt()

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        mu_hat, width = estimate.mu_hat, estimate.width
        check_arms_fit("BootstrappedUCB", self.num_arms, mu_hat.shape[-1])
        fail = 1 / (1 + (estimate.num_observations.to(mu_hat.dtype) + 1).unsqueeze(-1))
        quantile = torch.special.ndtri(1 - fail * (1 - self.split))
        inner = torch.sqrt(2 * torch.log(1 / fail) * torch.log(2 / (fail * self.split)))
        index = mu_hat + quantile * self.deviation(estimate) + self.subgaussian_r * width.square() * inner
        return Decision(_greedy_probabilities(index, mask), index, mu_hat, width, mask)
