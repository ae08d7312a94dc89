"""Beta as a small network over a summary of the data, in units of the noise."""

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
_MAX_LOG_RATIO = 3.0  # largest |log(beta / init)|
_UNITS = 11  # inputs of the first layer


class SummaryBeta(BetaModule):
    """Beta in units of the noise, as a small network over dimensionless numbers; initially the constant ``init``.

    The inputs change only when the policy estimates its scales (when the number of observations has grown by 30%), so
    beta is constant in between: number of observations, in all and per parameter; number of arms and of features; share of
    the variance that the features explain; noise against effect; what has been learned about theta; and the progress t / T,
    if the horizon is known.

    Args:
        horizon: number of rounds T; None if it is not known.
        init: beta before training.
        hidden: number of units in the hidden layer.

    Example:
        >>> from torch_softucb import SoftUCBPolicy
        >>> policy = SoftUCBPolicy.auto(2, beta_init=SummaryBeta(init=1.5))
        >>> policy(torch.eye(2)).beta
        tensor(1.5000, grad_fn=<MulBackward0>)
    """

    inputs = SUMMARY_INPUTS

    def __init__(self, *, horizon: int | None = None, init: float = 2.0, hidden: int = 16) -> None:
        super().__init__()
        self.horizon = None if horizon is None else check_integer("SummaryBeta", "horizon", horizon, low=1)
        self.init = check_number("SummaryBeta", "init", init, low=0.0, open_low=True)
        self.hidden = nn.Linear(_UNITS, check_integer("SummaryBeta", "hidden", hidden, low=1))
        self.linear = nn.Linear(_UNITS, 1)
        self.correction = nn.Linear(hidden, 1, bias=False)
        for layer in (self.linear, self.correction):
            nn.init.zeros_(layer.weight)
        nn.init.zeros_(self.linear.bias)

    def for_horizon(self, horizon: int | None) -> Self:
        """Return the module for another number of rounds T, or for an unknown one; parameters are shared."""
        other = copy.copy(self)  # shallow: parameters and submodules are the same objects
        other.horizon = None if horizon is None else check_integer("SummaryBeta", "horizon", horizon, low=1)
        return other

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, horizon: int | None = None) -> tuple[Self, dict[str, str]]:
        """Load a network that :meth:`save` wrote.

        Args:
            path: file of :meth:`save`.
            horizon: number of rounds T; None if it is not known.

        Returns:
            The network, and the notes that were saved with it.

        Raises:
            ValueError: if the file cannot be read, is damaged, or is not what :meth:`save` writes.
        """
        return load_network(path, partial(cls, horizon=horizon), name="SummaryBeta", settings=("init",))

    def save(self, path: str | os.PathLike[str], **about: str) -> None:
        """Write the network as safetensors with a checksum.

        Args:
            path: file to write.
            **about: notes to save with it.
        """
        save_network(path, self, {"init": self.init}, about)

    @property
    def typical(self) -> float:
        """Beta before training."""
        return self.init

    def scaled(self, situation: Tensor) -> Tensor:  # (*B, F) -> (*B, 11)
        """Scale the inputs to about [-1, 1]."""
        n, rows, explained, log_rho, log_det, shrinkage, log_arms, log_dim = situation.unbind(-1)
        zero = torch.zeros_like(n)
        progress, left = zero, zero
        if self.horizon is not None:
            progress = (n / self.horizon).clamp(max=1)
            left = 1 - progress
        per_parameter = torch.log1p(n / rows) - log_dim
        return torch.stack(
            (
                torch.log1p(n) / 3 - 1,
                per_parameter / 3,
                2 * explained - 1,
                log_rho,
                log_det / 2 - 1,
                shrinkage.clamp(min=1e-6).log() / 3 + 1,
                log_arms - 3,
                log_dim - 2,
                zero + (0.0 if self.horizon is None else math.log(self.horizon) / 2 - 3),
                progress,
                left.square(),
            ),
            dim=-1,
        )

    def forward(self, situation: Tensor, bandit: Tensor | None = None) -> Tensor:  # (*B, F) -> (*B,)
        """Return init times the exponential of the network's output."""
        scaled = self.scaled(situation)
        log_ratio = self.linear(scaled) + self.correction(torch.tanh(self.hidden(scaled)))
        beta: Tensor = self.init * F.bounded(log_ratio.squeeze(-1), -_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
        return beta

    def single(self, situation: NDArray[np.floating[Any]]) -> float:  # (F,)
        """Return beta for one situation, in numpy: torch's dispatch would cost more than the arithmetic."""
        n, rows, explained, log_rho, log_det, shrinkage, log_arms, log_dim = situation.astype(np.float64).tolist()
        progress = 0.0 if self.horizon is None else min(n / self.horizon, 1.0)
        scaled = np.array(
            (
                math.log1p(n) / 3 - 1,
                (math.log1p(n / rows) - log_dim) / 3,
                2 * explained - 1,
                log_rho,
                log_det / 2 - 1,
                math.log(max(shrinkage, 1e-6)) / 3 + 1,
                log_arms - 3,
                log_dim - 2,
                0.0 if self.horizon is None else math.log(self.horizon) / 2 - 3,
                progress,
                0.0 if self.horizon is None else (1 - progress) ** 2,
            )
        )
        hidden = np.tanh(self.hidden.weight.detach().numpy() @ scaled + self.hidden.bias.detach().numpy())
        log_ratio = self.linear.weight.detach().numpy() @ scaled + self.linear.bias.detach().numpy()
        log_ratio = float((log_ratio + self.correction.weight.detach().numpy() @ hidden)[0])
        return self.init * math.exp(min(max(log_ratio, -_MAX_LOG_RATIO), _MAX_LOG_RATIO))
