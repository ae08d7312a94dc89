"""Beta as a module: the contract."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

from torch_softucb.checks import check_integer
from torch_softucb.policies.beta.situation import _FROM_SUMS, _INPUTS
from torch_softucb.policies.decision import Estimate


class BetaModule(nn.Module, ABC):
    """beta >= 0 from what a decision is about."""

    inputs: Sequence[str] = ()  # names of SITUATION
    lr = 0.02  # by how much trainers move its parameters a step, by default

    @abstractmethod
    def forward(
        self,
        situation: Tensor,  # (*B, F) the numbers of `inputs`; any leading dims
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
    def needs_sums(self) -> bool:
        return any(name in _FROM_SUMS for name in self.inputs)

    @property
    def needs_estimate(self) -> bool:
        """Does it look at more than the number of observations?"""
        return any(name != "num_observations" for name in self.inputs)

    def situation(self, estimate: Estimate, mask: Tensor | None) -> Tensor:  # (*B, F), or (F,) when it looks at time alone
        like = estimate.mu_hat
        looks = [_INPUTS[name](estimate, mask).to(like.dtype) for name in self.inputs]
        if not looks:
            return like.new_empty(0)
        if not self.needs_estimate:
            return torch.stack(looks, dim=-1)
        return torch.stack([recorded.expand(like.shape[:-1]) for recorded in looks], dim=-1)
