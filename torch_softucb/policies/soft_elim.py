"""SoftElim: softmax elimination by estimated gaps with a learnable rate; a differentiable baseline for SoftUCB."""

from typing import Any, Unpack

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.functional.softmax import _softmax, masked
from torch_softucb.policies._checks import check_keywords
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.statistics import PolicyKwargs


class SoftElim(BanditPolicy):
    """Policy that plays arm i with probability proportional to exp(-S_i), S_i = 2 rate gap_i^2 / width_i^2.

    The gap is max_j mu_hat_j - mu_hat_i. In the original paper 1 / width_i^2 is the number of pulls of arm i; with features
    it measures the information from the pulls of all arms. An arm of width 0 is known exactly and is played only if its gap
    is 0.

    Args:
        dim: number of features d.
        rate_init: initial value of the learnable rate, >= 0; gamma in the original paper, 1 by default there.
        **policy_kwargs: ``ridge_alpha``, ``refresh_every``, ``prior``, ``device``, ``dtype``, as in
            :class:`~torch_softucb.BanditPolicy`.

    C. Boutilier, C. Hsu, B. Kveton, M. Mladenov, C. Szepesvari, M. Zaheer: Differentiable meta-learning of bandit policies,
    NeurIPS 2020; linear version.

    Example:
        >>> policy = SoftElim(2)
        >>> policy(torch.eye(2)).probs.detach()
        tensor([0.5000, 0.5000])
    """

    def __init__(self, dim: int, *, rate_init: float = 1.0, **policy_kwargs: Unpack[PolicyKwargs]) -> None:
        check_keywords("SoftElim", policy_kwargs, PolicyKwargs.__annotations__)
        super().__init__(dim, **policy_kwargs)
        value = check_number("SoftElim", "rate_init", rate_init, low=0.0)
        self.raw_rate = nn.Parameter(torch.tensor(value, dtype=self.dtype, device=self.device))

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of the constructor that, with ``dim``, reproduce the policy without its statistics."""
        return {**super().settings, "rate_init": float(self.rate.detach())}

    @property
    def rate(self) -> Tensor:  # ()
        """Learnable rate; differentiable, and >= 0 under any optimiser."""
        return F.nonnegative(self.raw_rate)

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        """Compute the softmax over the squared ratio of gap to width."""
        mu_hat, width = estimate.mu_hat, estimate.width
        gap = masked(mu_hat, mask).amax(-1, keepdim=True) - mu_hat
        least = torch.finfo(mu_hat.dtype).tiny ** 0.25
        index = -2 * (gap / width.clamp(min=least)).square()
        gamma = self.rate.expand(mu_hat.shape[:-1])
        probs = _softmax(gamma.unsqueeze(-1) * index, mask)
        return Decision(probs=probs, index=index, mu_hat=estimate.reported_mean, width=width, mask=mask, gamma=gamma)
