"""Beta as a learned function of a summary of the data, in units of the noise."""

import copy
import math
import os
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_integer, check_number
from torch_softucb.policies.beta.base import BetaModule
from torch_softucb.policies.beta.network_file import load_network, save_network
from torch_softucb.policies.beta.situation import SUMMARY_INPUTS

PRETRAINED_AUTO = Path(__file__).with_name("pretrained") / "auto.safetensors"
_MAX_LOG_RATIO = 3.0  # largest |log(beta / init)| that the inputs can lead to
SCALED = (
    "log_observations",
    "per_parameter",
    "explained",
    "log_rho",
    "log_det",
    "log_shrinkage",
    "forgotten",
    "separate_arms",
    "log_arms",
    "log_dim",
    "log_horizon",
    "horizon_known",
)
"""Names of the scaled inputs of SummaryBeta, in the order of its weights."""


class SummaryBeta(BetaModule):
    """Beta in units of the noise, log-linear in dimensionless numbers about the data; initially the constant ``init``.

    The inputs change only when the policy estimates its scales (when the number of observations has grown by 30%): number
    of observations, in all and per parameter; number of arms, of features and of rows that share the scales; share of the
    variance that the features explain; noise against effect; what has been learned about theta; share of the observations
    that is not forgotten. If the horizon T is known, beta also falls with the rounds that are left, as (1 - t / T)^decay:
    what is learned late is used less often.

    Args:
        horizon: number of rounds T; None if it is not known.
        init: beta before training, at t = 0.
        decay: initial exponent of the share of rounds that are left.

    Example:
        >>> from torch_softucb import SoftUCBPolicy
        >>> policy = SoftUCBPolicy.auto(2, beta_init=SummaryBeta(init=1.5))
        >>> policy(torch.eye(2)).beta
        tensor(1.5000, grad_fn=<MulBackward0>)
    """

    inputs = SUMMARY_INPUTS

    def __init__(self, *, horizon: int | None = None, init: float = 2.0, decay: float = 0.25) -> None:
        super().__init__()
        self.horizon = None if horizon is None else check_integer("SummaryBeta", "horizon", horizon, low=1)
        self.init = check_number("SummaryBeta", "init", init, low=0.0, open_low=True)
        decay = check_number("SummaryBeta", "decay", decay, low=0.0, open_low=True)
        self.log_decay = nn.Parameter(torch.tensor(math.log(decay)))
        self.linear = nn.Linear(len(SCALED), 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self._last: tuple[tuple[object, ...], float] = ((), init)  # of `single`: its arguments, and what they led to

    def for_horizon(self, horizon: int | None) -> Self:
        """Return the module for another number of rounds T, or for an unknown one; parameters are shared."""
        other = copy.copy(self)  # shallow: parameters and submodules are the same objects
        other.horizon = None if horizon is None else check_integer("SummaryBeta", "horizon", horizon, low=1)
        return other

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, horizon: int | None = None) -> tuple[Self, dict[str, str]]:
        """Load a module that :meth:`save` wrote.

        Args:
            path: file of :meth:`save`.
            horizon: number of rounds T; None if it is not known.

        Returns:
            The module, and the notes that were saved with it.

        Raises:
            ValueError: if the file cannot be read, is damaged, or is not what :meth:`save` writes.
        """
        return load_network(path, partial(cls, horizon=horizon), name="SummaryBeta", settings=("init",), has_hidden=False)

    def save(self, path: str | os.PathLike[str], **about: str) -> None:
        """Write the module as safetensors with a checksum.

        Args:
            path: file to write.
            **about: notes to save with it.
        """
        save_network(path, self, {"init": self.init}, about)

    @property
    def typical(self) -> float:
        """Beta before training."""
        return self.init

    def scaled(self, situation: Tensor) -> Tensor:  # (*B, F) -> (*B, 12)
        """Scale the inputs to about [-1, 1]."""
        n, rows, explained, log_rho, log_det, shrinkage, kept, log_arms, log_dim, _ = situation.unbind(-1)
        zero = torch.zeros_like(n)
        return torch.stack(
            (
                torch.log1p(n) / 3 - 1,
                (torch.log1p(n / rows) - log_dim) / 3,
                2 * explained - 1,
                log_rho,
                log_det / 2 - 1,
                shrinkage.clamp(min=1e-6).log() / 3 + 1,
                1 - kept,
                rows.log() * (3.5 - log_dim) / 2,
                log_arms - 3,
                log_dim - 2,
                zero + (0.0 if self.horizon is None else math.log(self.horizon) / 2 - 3),
                zero + (0.0 if self.horizon is None else 1.0),
            ),
            dim=-1,
        )

    def _left(self, num_observations: Tensor) -> Tensor:  # any shape
        """Return the share of rounds that are left; never 0, so that a policy still decides after the horizon."""
        assert self.horizon is not None
        return (1 - num_observations / self.horizon).clamp(min=1 / (self.horizon + 1))

    def forward(self, situation: Tensor, bandit: Tensor | None = None) -> Tensor:  # (*B, F) -> (*B,)
        """Return init times the exponential of the linear function, times the factor for the rounds that are left."""
        log_ratio = self.linear(self.scaled(situation))
        beta: Tensor = self.init * F.bounded(log_ratio.squeeze(-1), -_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
        return beta if self.horizon is None else beta * self._left(situation[..., -1]) ** self.log_decay.exp()

    def over_rounds(self, beta: Tensor, num_observations: Tensor) -> Tensor:  # (B,), (n,) -> (n or 1, B)
        """Return beta in each of several rounds between two estimates of the scales."""
        if self.horizon is None:
            return beta.reshape(1, -1)
        left = self._left(num_observations)
        return beta.reshape(1, -1) * (left / left[0]).unsqueeze(-1) ** self.log_decay.exp()

    def single(self, situation: NDArray[np.floating[Any]]) -> float:  # (F,)
        """Return beta for one situation, in numpy: torch's dispatch would cost more than the arithmetic."""
        weight, bias = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        key = (situation[:-1].tobytes(), weight.tobytes(), bias.tobytes(), self.horizon)
        if self._last[0] != key:  # between two estimates of the scales only the number of observations changes
            self._last = (key, self._steady(situation, weight[0], float(bias[0])))
        beta = self._last[1]
        if self.horizon is None:
            return beta
        left: float = max(1 - float(situation[-1]) / self.horizon, 1 / (self.horizon + 1))
        return float(beta * left ** math.exp(self.log_decay.item()))

    def _steady(
        self,
        situation: NDArray[np.floating[Any]],  # (F,)
        weight: NDArray[np.floating[Any]],  # (12,)
        bias: float,
    ) -> float:
        """Return the part of beta that does not depend on the rounds that are left."""
        n, rows, explained, log_rho, log_det, shrinkage, kept, log_arms, log_dim, _ = situation.astype(np.float64).tolist()
        scaled = np.array(
            (
                math.log1p(n) / 3 - 1,
                (math.log1p(n / rows) - log_dim) / 3,
                2 * explained - 1,
                log_rho,
                log_det / 2 - 1,
                math.log(max(shrinkage, 1e-6)) / 3 + 1,
                1 - kept,
                math.log(rows) * (3.5 - log_dim) / 2,
                log_arms - 3,
                log_dim - 2,
                0.0 if self.horizon is None else math.log(self.horizon) / 2 - 3,
                0.0 if self.horizon is None else 1.0,
            )
        )
        log_ratio = float(weight @ scaled) + bias
        return self.init * math.exp(min(max(log_ratio, -_MAX_LOG_RATIO), _MAX_LOG_RATIO))
