"""Learnable parameters of SoftUCB: the confidence width beta and, optionally, delta of Eq. 9."""

import math
from collections.abc import Mapping
from typing import Any, Self, Unpack

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_batch, check_delta, check_not_negative, check_number
from torch_softucb.policies._checks import check_beta_fits, check_flag
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.beta.base import BetaModule
from torch_softucb.policies.decision import Estimate
from torch_softucb.policies.rows import pack
from torch_softucb.policies.statistics import PolicyKwargs

_MAX_LOGIT = 14.0  # delta = 0.9999992, practically LinUCB


class LearnableConfidence(BanditPolicy):
    """Base of policies with a learnable beta and a fixed or learnable delta.

    Args:
        dim: number of features d.
        beta_init: initial beta: a number, a tensor with one value per bandit, or a :class:`~torch_softucb.BetaModule`.
        delta: delta of Eq. 9, in [0.5, 1).
        learn_delta: whether delta is a parameter.
        **policy_kwargs: as in :class:`~torch_softucb.BanditPolicy`.
    """

    raw_beta: nn.Parameter  # () or (*B,); None if beta is a BetaModule

    def __init__(
        self,
        dim: int,
        *,
        beta_init: float | Tensor | BetaModule,
        delta: float,
        learn_delta: bool,
        **policy_kwargs: Unpack[PolicyKwargs],
    ) -> None:
        module = beta_init if isinstance(beta_init, BetaModule) else None
        if isinstance(beta_init, type | nn.Module) and module is None:
            got = f"the class {beta_init.__name__}" if isinstance(beta_init, type) else type(beta_init).__name__
            raise TypeError(
                f"{type(self).__name__}: beta_init must be a number, a tensor or a BetaModule instance, got {got}"
            )
        super().__init__(dim, memory=self._initial_memory(dim, module), **policy_kwargs)
        self.fixed_delta = check_delta(type(self).__name__, delta)
        learned = check_flag(type(self).__name__, "learn_delta", learn_delta)
        self.raw_delta = nn.Parameter(self._like.new_tensor(math.log(delta / (1 - delta)))) if learned else None
        self.beta_module = None if module is None else module.to(device=self.device, dtype=self.dtype)
        start = None if isinstance(beta_init, BetaModule) else nn.Parameter(self._beta_tensor("beta_init", beta_init))
        self.register_parameter("raw_beta", start)

    @classmethod
    def _initial_memory(cls, dim: int, module: BetaModule | None) -> Tensor | None:  # (M,)
        """Return what is kept per bandit in addition to the ridge statistics, before any observation."""
        return torch.zeros(2) if module is not None and module.needs_sums else None

    def _beta_tensor(self, name: str, value: float | Tensor) -> Tensor:
        where = type(self).__name__
        if isinstance(value, Tensor):
            check_not_negative(where, name, value)
            return value.detach().to(self._like).clone()
        return torch.tensor(check_number(where, name, value, low=0.0), dtype=self.dtype, device=self.device)

    def _number(self) -> nn.Parameter:  # () or (*B,)
        if self.beta_module is not None:
            raise ValueError(
                f"{type(self).__name__}.beta: beta must be a number, or one number per bandit, got "
                f"{type(self.beta_module).__name__}, which computes it in each decision; read decision.beta"
            )
        return self.raw_beta

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of the constructor that, with ``dim``, reproduce the policy except for beta and statistics."""
        with torch.no_grad():
            delta = float(self.delta)
        return {**super().settings, "delta": delta, "learn_delta": self.raw_delta is not None}

    @torch.inference_mode(False)
    @torch.no_grad()
    def with_beta(self, beta: float | Tensor | BetaModule, *, dim: int | None = None) -> Self:
        """Return a policy with the same settings and another beta.

        Args:
            beta: as ``beta_init``. A module becomes part of the new policy; it is not copied.
            dim: number of features, if it changes. The new policy then has the same batch of bandits without observations;
                otherwise the statistics are copied.

        Raises:
            ValueError: if ``beta`` is a module that needs running sums of the rewards, which this policy has not kept for
                the observations that it has.

        Example:
            >>> from torch_softucb import SoftUCBPolicy
            >>> SoftUCBPolicy(3, beta_init=1.0, delta=0.9).with_beta(0.4)
            SoftUCBPolicy(dim=3, ridge_alpha=1.0, batch_shape=(), beta=0.4, delta=0.9, coldness='current')
        """
        other = type(self)(self.dim if dim is None else dim, beta_init=beta, **self.settings)
        if self.raw_delta is not None and other.raw_delta is not None:
            other.raw_delta.copy_(self.raw_delta)
        other.reset(batch_shape=tuple(self.batch_shape))
        if other.dim != self.dim:
            return other
        if other.layout.size == self.layout.size:
            other.statistics = self.statistics.clone()
        elif self.keeps_sums:
            other.statistics = pack(self.state._replace(memory=self.state.memory[..., :0]))
        elif bool((self.state.num_observations > 0).any()):
            raise ValueError(
                f"SoftUCBPolicy.with_beta: {type(beta).__name__} needs running sums of the rewards, which this policy has "
                "not kept; reset() the policy first, or replay its observations to a policy that starts with this module"
            )
        return other

    @property
    def needs_estimate(self) -> bool:
        """Whether beta depends on the estimates of a round, not only on the number of observations."""
        return self.beta_module is not None and self.beta_module.needs_estimate

    @property
    def keeps_sums(self) -> bool:
        """Whether the memory is the number of observations and sum y^2, which some inputs of a BetaModule need."""
        return self.beta_module is not None and self.beta_module.needs_sums

    def check_state(self, state_dict: Mapping[str, Any], *, prefix: str = "", strict: bool = True) -> None:
        """Raise unless a state dict holds a possible state of this policy; changes nothing."""
        super().check_state(state_dict, prefix=prefix, strict=strict)
        if self.beta_module is not None:
            self.beta_module.check_state(state_dict, prefix=f"{prefix}beta_module.")

    def impossible_memory(self, memory: Tensor) -> Tensor:  # (n, 2) -> (n,)
        """Return which rows hold negative sums."""
        return (memory < 0).any(-1)

    @property
    def beta(self) -> Tensor:  # () or (*B,)
        """Confidence width; differentiable, and >= 0 under any optimiser (D9).

        Raises:
            ValueError: if beta is a :class:`~torch_softucb.BetaModule`; read ``decision.beta`` instead.
        """
        return F.nonnegative(self._number())

    @beta.setter
    def beta(self, value: float | Tensor) -> None:
        new = self._beta_tensor("beta", value)
        raw = self._number()
        check_batch(type(self).__name__, "beta", new, raw.shape)
        with torch.no_grad():
            raw.copy_(new)

    @property
    def delta(self) -> float | Tensor:  # ()
        """Delta of Eq. 9. A differentiable float64 tensor if it is learned: 1 - delta needs the digits."""
        return self.fixed_delta if self.raw_delta is None else torch.sigmoid(self.delta_logit.double())

    @property
    def delta_logit(self) -> Tensor:  # ()
        """Learned log(delta / (1 - delta)).

        Raises:
            ValueError: if delta is not learned.
        """
        if self.raw_delta is None:
            raise ValueError(
                f"{type(self).__name__}.delta_logit: delta is fixed at {self.fixed_delta}; "
                "build the policy with learn_delta=True to learn it"
            )
        return F.bounded(self.raw_delta, 0.0, _MAX_LOGIT)

    @property
    def positive_parameters(self) -> list[nn.Parameter]:
        """Parameters whose values are betas, for optimisers that take multiplicative steps."""
        return [self.raw_beta] if self.beta_module is None else self.beta_module.positive_parameters

    @torch.no_grad()
    def project_(self) -> None:
        """Clamp raw parameters back into range after an optimiser step.

        Optional: `beta` already reads as 0 while the raw value is negative (D9); clamping only avoids a slow return.
        """
        if self.beta_module is None:
            self.raw_beta.clamp_(min=0)
        else:
            self.beta_module.project_()
        if self.raw_delta is not None:
            self.raw_delta.clamp_(0, _MAX_LOGIT)

    @property
    def one_for_all(self) -> bool:
        """Whether all bandits share one beta, or one module that computes it from the situation."""
        return not self.raw_beta.dim() if self.beta_module is None else bool(self.beta_module.inputs)

    def situated_beta(
        self,
        estimate: Estimate,
        *,
        mask: Tensor | None = None,  # (K,) or (*B, K)
        bandit: Tensor | None = None,  # (N,)
    ) -> tuple[Tensor, Tensor | None]:  # () or (*B,); (*B, F)
        """Return beta for one decision, and the inputs of the :class:`~torch_softucb.BetaModule` behind it, if any."""
        where, batch = type(self).__name__, estimate.mu_hat.shape[:-1]
        if self.beta_module is None:
            beta = self.beta
            check_beta_fits(where, beta.shape, batch if bandit is None else self.batch_shape)
            return beta[bandit] if bandit is not None and beta.dim() else beta, None
        situation = self.beta_module.situation(estimate, mask)
        if bandit is not None and not self.beta_module.inputs:  # one beta per bandit: must also fit those not in `bandit`
            check_beta_fits(where, self.beta_module(situation).shape, self.batch_shape)
        beta = self.beta_module(situation, bandit)
        check_beta_fits(where, beta.shape, batch)
        return beta, situation

    def beta_along(self, situation: Tensor | None, dims: int) -> Tensor:  # () or (T, *B), or broadcastable to it
        """Return beta in all rounds of a trajectory; differentiable.

        Args:
            situation: recorded inputs of the module, ``(T, *B, F)`` or ``(T, F)``; not needed if beta is a number.
            dims: number of dims of the trajectory, 1 + len(B).
        """
        if self.beta_module is None:
            return self.beta
        if situation is None:
            raise ValueError(
                f"{type(self).__name__}.beta_along: situation must be given where beta is a module, got None; "
                "use a rollout with scores=True"
            )
        beta: Tensor = self.beta_module(situation)
        if self.needs_estimate or not self.beta_module.inputs:
            return beta
        return beta.view(-1, *[1] * (dims - 1))  # a function of time alone: (T,)
