"""SoftUCB (Algorithm 1): softmax over the UCB index, with a confidence width that can be learned."""

import math
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_batch, check_choice, check_delta, check_finite, check_not_negative, check_number
from torch_softucb.functional.index import _soft_ucb_index
from torch_softucb.functional.softmax import _coldness, _smooth_coldness, _softmax, max_index
from torch_softucb.policies import fast_path as single
from torch_softucb.policies._checks import check_beta_fits, check_beta_is_number, check_beta_module, check_carried_gamma
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.beta.base import BetaModule
from torch_softucb.policies.beta.network import PRETRAINED, SituationBeta
from torch_softucb.policies.decision import Decision, Estimate, NativeRule

COLDNESS_MODES = ("current", "lagged", "smooth")
_MOST_LOGIT = 14.0  # delta 0.9999992, all but LinUCB


class SoftUCBPolicy(BanditPolicy):
    """Softmax policy over the index S (Eqs. 6-9) with a learnable confidence width beta.

    Args:
        dim: number of features d.
        beta_init: first value of beta, a number >= 0, or a tensor with one for every bandit; default 1 (D8). Or a
            :class:`~torch_softucb.BetaModule` that says beta in every decision: one for every segment, a schedule over
            t / T, a small network over the situation. As in other torch containers it becomes a part of the policy, in
            the policy's dtype and on its device; policies that share a module must have the same.
        delta: Eq. 9's delta in [0.5, 1): arms found suboptimal get less than 1 - delta of the probability (D2).
        learn_delta: make delta a parameter too, through its logit; it stays between 0.5 and 0.9999992.
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

    raw_beta: nn.Parameter  # None with a BetaModule

    def __init__(
        self,
        dim: int,
        *,
        beta_init: float | Tensor | BetaModule = 1.0,
        delta: float = 0.99,
        learn_delta: bool = False,
        ridge_alpha: float = 1.0,
        coldness: str = "current",
        smoothing: float = 0.1,
        differentiate_gamma: bool = False,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        module = beta_init if isinstance(beta_init, BetaModule) else None
        check_beta_module("SoftUCBPolicy", beta_init, BetaModule)
        kind: dict[str, Any] = {"refresh_every": refresh_every, "device": device, "dtype": dtype}
        super().__init__(dim, ridge_alpha=ridge_alpha, running_sums=module is not None and module.needs_sums, **kind)
        self.fixed_delta = check_delta("SoftUCBPolicy", delta)
        self.raw_delta = nn.Parameter(self._like.new_tensor(math.log(delta / (1 - delta)))) if learn_delta else None
        check_choice("SoftUCBPolicy", "coldness", coldness, COLDNESS_MODES)
        self.coldness = coldness
        self.carries_gamma = coldness == "lagged"
        self.smoothing = check_number("SoftUCBPolicy", "smoothing", smoothing, low=0.0, open_low=True)
        self.differentiate_gamma = differentiate_gamma
        self.needs_estimate = module is not None and module.needs_estimate
        self.beta_module = None if module is None else module.to(device=self.device, dtype=self.dtype)
        start = None if isinstance(beta_init, BetaModule) else nn.Parameter(self._beta_tensor("beta_init", beta_init))
        self.register_parameter("raw_beta", start)

    @classmethod
    def pretrained(
        cls,
        dim: int,
        *,
        horizon: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """A policy that needs no tuning: its beta comes from a network that was trained on problems of many
        sizes, and delta was learned with it.

        Args:
            dim: number of features d.
            horizon: about how many decisions it is to make; t / T is one of the things that the network looks at.

        It expects features of length about 1 and rewards of size about 1; noise it finds out by itself.

        Example:
            >>> policy = SoftUCBPolicy.pretrained(10, horizon=500)
            >>> bool(policy(torch.eye(10)).beta > 0)
            True
        """
        module, about = SituationBeta.load(PRETRAINED, horizon=horizon)
        delta = float(about["delta"])
        return cls(dim, beta_init=module, delta=delta, coldness="smooth", device=device, dtype=dtype)

    def _beta_tensor(self, name: str, value: float | Tensor) -> Tensor:
        if isinstance(value, Tensor):
            check_not_negative("SoftUCBPolicy", name, value)
            return value.detach().to(self._like).clone()
        return torch.tensor(check_number("SoftUCBPolicy", name, value, low=0.0), dtype=self.dtype, device=self.device)

    @property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments of the constructor that reproduce this policy, except for beta and the statistics."""
        return {
            "delta": float(self.delta),
            "learn_delta": self.raw_delta is not None,
            "ridge_alpha": self.ridge_alpha,
            "coldness": self.coldness,
            "smoothing": self.smoothing,
            "differentiate_gamma": self.differentiate_gamma,
            "refresh_every": self.refresh_every,
            "device": self.device,
            "dtype": self.dtype,
        }

    @torch.no_grad()
    def with_beta(self, beta: float | Tensor | BetaModule, *, dim: int | None = None) -> Self:
        """Return a policy with the same settings and another beta.

        Args:
            beta: as ``beta_init``; a module becomes part of the new policy, it is not copied.
            dim: number of features, if it changes. The statistics are copied where it does not.

        Example:
            >>> SoftUCBPolicy(3, beta_init=1.0, delta=0.9).with_beta(0.4)
            SoftUCBPolicy(dim=3, ridge_alpha=1.0, batch_shape=(), beta=0.4, delta=0.9, coldness='current')
        """
        other = type(self)(self.dim if dim is None else dim, beta_init=beta, **self.settings)
        if self.raw_delta is not None:
            assert other.raw_delta is not None
            other.raw_delta.copy_(self.raw_delta)
        if other.statistics.shape[-1] == self.statistics.shape[-1] and other.dim == self.dim:
            other.statistics = self.statistics.clone()
        return other

    @property
    def beta(self) -> Tensor:  # () or (*B,)
        """The paper's beta: >= 0 under any optimiser (D9), differentiable."""
        return F.nonnegative(check_beta_is_number("SoftUCBPolicy.beta", self.raw_beta, self.beta_module))

    @beta.setter
    def beta(self, value: float | Tensor) -> None:
        new = self._beta_tensor("beta", value)
        raw = check_beta_is_number("SoftUCBPolicy.beta", self.raw_beta, self.beta_module)
        check_batch("SoftUCBPolicy", "beta", new, raw.shape)
        with torch.no_grad():
            raw.copy_(new)

    @property
    def delta(self) -> float | Tensor:  # ()
        """Eq. 9's delta; a differentiable tensor when it is learned, in float64: 1 - delta needs its digits."""
        return self.fixed_delta if self.raw_delta is None else torch.sigmoid(self.delta_logit.double())

    @property
    def delta_logit(self) -> Tensor:  # ()
        """log(delta / (1 - delta)), where delta is learned."""
        assert self.raw_delta is not None
        return F.bounded(self.raw_delta, 0.0, _MOST_LOGIT)

    @property
    def kappa(self) -> float | None:
        """``smoothing`` of a smooth coldness, None for the others."""
        return self.smoothing if self.coldness == "smooth" else None

    @property
    def positive_parameters(self) -> list[nn.Parameter]:
        """Those that stand for a beta themselves."""
        return [self.raw_beta] if self.beta_module is None else self.beta_module.positive_parameters

    @torch.no_grad()
    def project_(self) -> None:
        """Set a raw beta that an optimiser took below 0 to 0, so that its way back is not longer than its step.

        Nobody must call this: beta reads as 0 meanwhile (D9), and delta as the end of its range that it is beyond. The
        trainers do, after every step.
        """
        if self.beta_module is None:
            self.raw_beta.clamp_(min=0)
        else:
            self.beta_module.project_()
        if self.raw_delta is not None:
            self.raw_delta.clamp_(0, _MOST_LOGIT)

    def situated_beta(
        self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:  # () or (*B,), and (*B, F)
        """beta of this decision, and what a :class:`~torch_softucb.BetaModule` looked at to say it."""
        batch = estimate.mu_hat.shape[:-1]
        if self.beta_module is None:
            return self._beta_rows(batch, bandit), None
        situation = self.beta_module.situation(estimate, mask)
        if bandit is not None and not self.beta_module.inputs:  # one a bandit: for those that are not named, too
            check_beta_fits("SoftUCBPolicy", self.beta_module(situation).shape, self.batch_shape)
        beta: Tensor = self.beta_module(situation, bandit)
        check_beta_fits("SoftUCBPolicy", beta.shape, batch)
        return beta, situation

    @property
    def one_for_all(self) -> bool:
        """Does every bandit have the same beta, or the same module to say it?"""
        return not self.raw_beta.dim() if self.beta_module is None else bool(self.beta_module.inputs)

    def beta_along(self, situation: Tensor | None, dims: int) -> Tensor:  # () or (T, *B), or what broadcasts to it
        """beta in all rounds of a trajectory of ``dims`` dims, from the inputs that were recorded: differentiable."""
        if self.beta_module is None:
            return self.beta
        assert situation is not None
        beta: Tensor = self.beta_module(situation)
        if self.needs_estimate or not self.beta_module.inputs:
            return beta
        return beta.view(-1, *[1] * (dims - 1))  # time alone: (T,)

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
        beta, situation = self.situated_beta(estimate, mask=mask, bandit=bandit)
        index = _soft_ucb_index(mu_hat, width, beta, mask)
        source = index.detach() if index.requires_grad and not self.differentiate_gamma else index  # D3
        s_max = max_index(source, mask)
        if self.coldness == "smooth":
            fresh = _smooth_coldness(source, self.delta, self.smoothing, mask, s_max)
        else:
            fresh = _coldness(source, self.delta, mask, s_max)
        gamma = carried.to(fresh.dtype).expand(fresh.shape) if self.coldness == "lagged" else fresh  # D6
        probs = _softmax(gamma.unsqueeze(-1) * index, mask, top=gamma * s_max)  # Eq. 8; gamma is never below 0
        return Decision(probs, index, mu_hat, width, mask, beta, gamma, fresh, situation=situation)

    def _decide_one(self, where: str, row: Tensor, arms: Tensor, mask: Tensor | None) -> Decision | None:
        raw, dtype = self.raw_beta, arms.dtype
        if self.beta_module is not None or self.raw_delta is not None or raw.dim():
            return None
        mu_hat, width = single.estimate(row, arms, self.dim)
        if not math.isfinite(np.add.reduce(mu_hat)):
            check_finite(where, "arms", arms)
        beta = max(raw.item(), 0.0)  # D9
        choice = single.soft_choice(
            mu_hat,
            width,
            beta,
            delta=self.fixed_delta,
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

    def native_rule(self, num_observations: Tensor) -> NativeRule:
        by_round = False
        if self.beta_module is None:
            beta = self.beta.detach()
        elif self.needs_estimate:
            beta = num_observations.new_zeros(())  # situated_beta says it, round by round
        else:
            with torch.no_grad():
                looked = num_observations.unsqueeze(-1)[:, : len(self.beta_module.inputs)]
                beta = self.beta_module(looked)
                by_round = bool(self.beta_module.inputs)
                beta = (
                    beta.expand(len(num_observations)).unsqueeze(-1) if by_round else beta
                )  # (n, 1): for each of the rounds
        delta = float(self.delta)
        odds = delta / (1 - delta)
        return NativeRule(f"soft_{self.coldness}", beta, odds=odds, smoothing=self.smoothing, by_round=by_round)

    def _next_gamma(self, decision: Decision | None, old: Tensor) -> Tensor:
        if not self.carries_gamma:
            return old
        gamma = None if decision is None else decision.next_gamma
        return check_carried_gamma("SoftUCBPolicy.update", gamma, old.shape).to(torch.float64)

    @torch.no_grad()
    def extra_repr(self) -> str:
        if self.beta_module is not None:
            beta = "module"
        else:
            shape = tuple(self.raw_beta.shape)
            beta = f"{self.beta.item():.4g}" if not shape else f"tensor{shape}"
        return f"{super().extra_repr()}, beta={beta}, delta={float(self.delta):.4g}, coldness={self.coldness!r}"
