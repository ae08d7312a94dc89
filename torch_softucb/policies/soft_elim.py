"""SoftElim: softmax elimination by estimated gaps, with a parameter that can be learned; SoftUCB's differentiable rival."""

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.functional.softmax import _softmax, masked
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate


class SoftElim(BanditPolicy):
    """p_i proportional to exp(-S_i), S_i = 2 rate gap_i^2 / width_i^2, with gap_i = max_j mu_hat_j - mu_hat_i.

    In the source 1 / width_i^2 is the number of pulls of arm i; with features it is what the pulls of all arms tell of it.
    An arm of width 0 is known: it is played only if its gap is 0.

    Args:
        dim: number of features d.
        rate_init: first value of the learnable rate (gamma of the source, >= 0); 1 there by default.
        ridge_alpha: ridge weight alpha.

    C. Boutilier, C. Hsu, B. Kveton, M. Mladenov, C. Szepesvari, M. Zaheer: Differentiable meta-learning of bandit policies,
    NeurIPS 2020; linear version.

    Example:
        >>> policy = SoftElim(2)
        >>> policy(torch.eye(2)).probs.detach()
        tensor([0.5000, 0.5000])
    """

    def __init__(
        self,
        dim: int,
        *,
        rate_init: float = 1.0,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, ridge_alpha=ridge_alpha, refresh_every=refresh_every, device=device, dtype=dtype)
        value = check_number("SoftElim", "rate_init", rate_init, low=0.0)
        self.raw_rate = nn.Parameter(torch.tensor(value, dtype=self.dtype, device=self.device))

    @property
    def rate(self) -> Tensor:  # ()
        """>= 0 under any optimiser."""
        return F.nonnegative(self.raw_rate)

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        mu_hat, width = estimate.mu_hat, estimate.width
        gap = masked(mu_hat, mask).amax(-1, keepdim=True) - mu_hat
        least = torch.finfo(mu_hat.dtype).tiny ** 0.25
        index = -2 * (gap / width.clamp(min=least)).square()
        gamma = self.rate.expand(mu_hat.shape[:-1])
        return Decision(_softmax(gamma.unsqueeze(-1) * index, mask), index, mu_hat, width, mask, gamma=gamma)
