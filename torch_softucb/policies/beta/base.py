"""Contract of a module that computes beta."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from torch_softucb.checks import check_integer
from torch_softucb.policies.beta.situation import _FROM_SUMS, _INPUTS, SUMMARY_INPUTS
from torch_softucb.policies.decision import Estimate


class BetaModule(nn.Module, ABC):
    """Module that computes beta >= 0 from the situation of a decision.

    Attributes:
        inputs: names of the inputs, from :data:`~torch_softucb.policies.beta.SITUATION`; empty for one beta per bandit.
        lr: default learning rate of the trainers.
        horizon: number of rounds T, for modules that depend on t / T; else None.
    """

    inputs: Sequence[str] = ()
    lr = 0.02
    horizon: int | None = None

    @abstractmethod
    def forward(
        self,
        situation: Tensor,  # (*B, F), any leading dims
        bandit: Tensor | None = None,  # (N,)
    ) -> Tensor:  # (*B,), or broadcastable to it
        """Return beta for each situation.

        Args:
            situation: values of ``inputs``.
            bandit: rows of the policy's batch, for modules with one beta per bandit.
        """

    def for_horizon(self, horizon: int | None) -> Self:
        """Return the module for another number of rounds T; parameters are shared."""
        if self.horizon is None or horizon is None:
            return self
        other = copy.copy(self)  # shallow: parameters and submodules are the same objects
        other.horizon = check_integer(type(self).__name__, "horizon", horizon, low=1)
        return other

    @property
    def positive_parameters(self) -> list[nn.Parameter]:
        """Parameters whose values are betas."""
        return []

    @property
    def log_parameters(self) -> list[nn.Parameter]:
        """Parameters whose values are logarithms of betas."""
        return []

    def project_(self) -> None:
        """Clamp parameters back into range after an optimiser step; see ``SoftUCBPolicy.project_``."""

    def check_state(self, state_dict: Mapping[str, Any], *, prefix: str = "") -> None:
        """Raise ValueError if a state dict has values that the module cannot have; shapes and dtypes have been checked.

        Args:
            state_dict: entries by name.
            prefix: start of the names of this module's entries.
        """

    @property
    @abstractmethod
    def typical(self) -> float:
        """Representative beta to log before the first decision."""

    @property
    def needs_sums(self) -> bool:
        """Whether an input needs ``Estimate.running_sums``."""
        return any(name in _FROM_SUMS for name in self.inputs)

    @property
    def needs_estimate(self) -> bool:
        """Whether an input depends on more than the number of observations."""
        return any(name != "num_observations" for name in self.inputs)

    @property
    def is_steady(self) -> bool:
        """Whether :meth:`over_rounds` returns beta until the policy estimates its scales again."""
        return bool(self.inputs) and all(name in SUMMARY_INPUTS for name in self.inputs)

    def over_rounds(self, beta: Tensor, num_observations: Tensor) -> Tensor:  # (B,), (n,) -> (n or 1, B)
        """Return beta in each of several rounds between which only the number of observations changes.

        Args:
            beta: beta in the first of them.
            num_observations: number of observations before each round.
        """
        return beta.reshape(1, -1)

    def situation(self, estimate: Estimate, mask: Tensor | None) -> Tensor:  # (*B, F); (F,) for functions of time alone
        """Return the values of ``inputs`` for one decision.

        Args:
            estimate: estimates that the decision is based on.
            mask: allowed arms, ``(K,)`` or ``(*B, K)``.
        """
        like = estimate.mu_hat
        values = [_INPUTS[name](estimate, mask).to(like.dtype) for name in self.inputs]
        if not values:
            return like.new_empty(0)
        if not self.needs_estimate:
            return torch.stack(values, dim=-1)
        return torch.stack([value.expand(like.shape[:-1]) for value in values], dim=-1)
