"""Beta as a module: the contract."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

from torch_softucb.checks import (
    check_integer,
)
from torch_softucb.policies.beta.situation import _FROM_TALLY, _LOOKS
from torch_softucb.policies.decision import Estimate


class BetaModule(nn.Module, ABC):
    """beta >= 0 from what a decision is about."""

    looks_at: Sequence[str] = ()  # names of SITUATION
    lr = 0.02  # by how much trainers move its parameters a step, by default

    @abstractmethod
    def forward(
        self,
        situation: Tensor,  # (*B, F) the numbers of `looks_at`; any leading dims
        bandit: Tensor | None = None,  # (N,) rows of the policy's batch
    ) -> Tensor:  # (*B,), or what broadcasts to it
        """beta of every situation."""

    def for_horizon(self, horizon: int) -> Self:
        """The same module, parameters shared, for another T."""
        other = copy.copy(self)
        if hasattr(self, "horizon"):
            other.__dict__["horizon"] = check_integer(type(self).__name__, "horizon", horizon, low=1)
        return other

    @property
    def positive_parameters(self) -> list[nn.Parameter]:
        """Those that stand for a beta themselves."""
        return []

    @property
    def log_parameters(self) -> list[nn.Parameter]:
        """Those that stand for a beta's logarithm."""
        return []

    def project_(self) -> None:
        """Take parameters that stand for a beta back to 0 from below: see ``SoftUCBPolicy.project_``."""

    @property
    @abstractmethod
    def typical(self) -> float:
        """A number for what it says, before it was asked."""

    @property
    def needs_tally(self) -> bool:
        return any(name in _FROM_TALLY for name in self.looks_at)

    @property
    def looks_around(self) -> bool:
        """Does it look at more than the number of observations?"""
        return any(name != "seen" for name in self.looks_at)

    def situation(self, estimate: Estimate, mask: Tensor | None) -> Tensor:  # (*B, F), or (F,) when it looks at time alone
        like = estimate.mu_hat
        looks = [_LOOKS[name](estimate, mask).to(like.dtype) for name in self.looks_at]
        if not looks:
            return like.new_empty(0)
        if not self.looks_around:
            return torch.stack(looks, dim=-1)
        return torch.stack([look.expand(like.shape[:-1]) for look in looks], dim=-1)
