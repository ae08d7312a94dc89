"""SoftUCB (Algorithm 1): softmax over the UCB index, with a confidence width that can be learned."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import (
    check_batch,
    check_beta_fits,
    check_carried_gamma,
    check_choice,
    check_delta,
    check_finite,
    check_not_negative,
    check_number,
)
from torch_softucb.functional.index import index_unchecked
from torch_softucb.functional.policy import coldness_unchecked, smooth_coldness_unchecked, softmax_unchecked
from torch_softucb.policies import single
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.types import Decision, Estimate, NativeRule

COLDNESS_MODES = ("current", "lagged", "smooth")


class SoftUCBPolicy(BanditPolicy):
    """Softmax policy over the index S (Eqs. 6-9) with a learnable confidence width beta.

    Args:
        dim: number of features d.
        beta_init: first value of beta, a number >= 0, or a tensor with one for every bandit. Default 1 (D8).
        delta: Eq. 9's delta in [0.5, 1): arms found suboptimal get less than 1 - delta of the probability (D2).
        ridge_alpha: ridge weight alpha.
        coldness: ``current`` (gamma_t from S_t, Eq. 8), ``lagged`` (gamma_{t-1}, Algorithm 1 to the letter) or ``smooth``
            (continuous in beta), departure D6.
        smoothing: kappa of ``smooth``.
        differentiate_gamma: let gradients flow through gamma too; by default it is held constant, as in Eq. 13 (D3).

    Example:
        >>> policy = SoftUCBPolicy(dim=2)
        >>> decision = policy(torch.eye(2))
        >>> decision.probs  # nothing seen yet
        tensor([0.5000, 0.5000], grad_fn=<SoftmaxBackward0>)
        >>> for _ in range(50):
        ...     policy.update(torch.eye(2), torch.tensor([1.0, 0.0]))
        >>> policy(torch.eye(2)).probs[0] > 0.99
        tensor(True)
    """

    def __init__(
        self,
        dim: int,
        *,
        beta_init: float | Tensor = 1.0,
        delta: float = 0.99,
        ridge_alpha: float = 1.0,
        coldness: str = "current",
        smoothing: float = 0.1,
        differentiate_gamma: bool = False,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, ridge_alpha=ridge_alpha, refresh_every=refresh_every, device=device, dtype=dtype)
        self.delta = check_delta("SoftUCBPolicy", delta)
        check_choice("SoftUCBPolicy", "coldness", coldness, COLDNESS_MODES)
        self.coldness = coldness
        self.carries_gamma = coldness == "lagged"
        self.smoothing = check_number("SoftUCBPolicy", "smoothing", smoothing, low=0.0, open_low=True)
        self.differentiate_gamma = differentiate_gamma
        self.raw_beta = nn.Parameter(self._beta_tensor("beta_init", beta_init))

    def _beta_tensor(self, name: str, value: float | Tensor) -> Tensor:
        if isinstance(value, Tensor):
            check_not_negative("SoftUCBPolicy", name, value)
            return value.detach().to(self._like).clone()
        return torch.tensor(check_number("SoftUCBPolicy", name, value, low=0.0), dtype=self.dtype, device=self.device)

    @property
    def beta(self) -> Tensor:  # () or (*B,)
        """The paper's beta: >= 0 under any optimiser (D9), differentiable."""
        return F.nonnegative(self.raw_beta)

    @beta.setter
    def beta(self, value: float | Tensor) -> None:
        new = self._beta_tensor("beta", value)
        check_batch("SoftUCBPolicy", "beta", new, self.raw_beta.shape)
        with torch.no_grad():
            self.raw_beta.copy_(new)

    @torch.no_grad()
    def project_(self) -> None:
        """Set a raw beta that an optimiser took below 0 to 0, so that its way back is not longer than its step.

        Nobody must call this: beta reads as 0 meanwhile (D9). The trainers do, after every step.
        """
        self.raw_beta.clamp_(min=0)

    def _beta_rows(self, batch: torch.Size, bandit: Tensor | None) -> Tensor:
        beta = self.beta
        if bandit is None:
            check_beta_fits("SoftUCBPolicy", beta.shape, batch)
            return beta
        check_beta_fits("SoftUCBPolicy", beta.shape, self.batch_shape)
        if beta.dim():
            beta = beta[bandit]
        return beta

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        mu_hat, width, _, carried = estimate[:4]
        beta = self._beta_rows(mu_hat.shape[:-1], bandit)
        index = index_unchecked(mu_hat, width, beta, mask)
        source = index.detach() if index.requires_grad and not self.differentiate_gamma else index  # D3
        if self.coldness == "smooth":
            fresh = smooth_coldness_unchecked(source, self.delta, self.smoothing, mask)
        else:
            fresh = coldness_unchecked(source, self.delta, mask)
        gamma = carried.to(fresh.dtype).expand(fresh.shape) if self.coldness == "lagged" else fresh  # D6
        probs = softmax_unchecked(gamma.unsqueeze(-1) * index, mask)  # Eq. 8
        return Decision(probs, index, mu_hat, width, mask, beta, gamma, fresh)

    def _decide_one(self, where: str, row: Tensor, arms: Tensor, mask: Tensor | None) -> Decision | None:
        raw, dtype = self.raw_beta, arms.dtype
        if raw.dim():
            return None
        mu_hat, width = single.estimate(row, arms, self.dim)
        if not math.isfinite(np.add.reduce(mu_hat)):
            check_finite(where, "arms", arms)
        beta = max(raw.item(), 0.0)  # D9
        choice = single.soft_choice(
            mu_hat,
            width,
            beta,
            delta=self.delta,
            coldness=self.coldness,
            smoothing=self.smoothing,
            carried=row[-1].item() if self.carries_gamma else 0.0,
            mask=None if mask is None else mask.numpy(),
        )
        return single.OneDecision(
            dtype,
            mask,
            probs=choice.probs,
            index=choice.score,
            mu_hat=mu_hat,
            width=width,
            beta=beta,
            gamma=choice.gamma,
            next_gamma=choice.fresh,
        )

    def native_rule(self, seen: Tensor) -> NativeRule:
        beta = self.beta.detach()
        return NativeRule(f"soft_{self.coldness}", beta, odds=self.delta / (1 - self.delta), smoothing=self.smoothing)

    def _next_gamma(self, decision: Decision | None, old: Tensor) -> Tensor:
        if not self.carries_gamma:
            return old
        gamma = None if decision is None else decision.next_gamma
        return check_carried_gamma("SoftUCBPolicy.update", gamma, old.shape).to(torch.float64)

    def extra_repr(self) -> str:
        shape = tuple(self.raw_beta.shape)
        beta = f"{self.beta.item():.4g}" if not shape else f"tensor{shape}"
        return f"{super().extra_repr()}, beta={beta}, delta={self.delta}, coldness={self.coldness!r}"
