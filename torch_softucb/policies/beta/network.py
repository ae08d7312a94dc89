"""Beta as a small network over the situation."""

import math
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_choice, check_integer, check_number
from torch_softucb.policies.beta.base import BetaModule
from torch_softucb.policies.beta.network_file import load_network, save_network
from torch_softucb.policies.beta.situation import SITUATION

PRETRAINED = Path(__file__).with_name("pretrained") / "situation.safetensors"


class SituationBeta(BetaModule):
    """Beta as a small network over the situation; initially the constant ``init``.

    log beta is a linear function of the inputs (so beta can be a product of powers of noise, d, K, ...) plus a correction by
    one hidden layer. Inputs are scaled to about [-1, 1] by fixed numbers.

    Args:
        horizon: number of rounds T, for t / T.
        init: beta before training.
        hidden: number of units in the hidden layer.
        inputs: names from :data:`~torch_softucb.policies.beta.SITUATION`; ``num_observations`` becomes t / T, log(1 + t)
            and log T.

    Example:
        >>> from torch_softucb import SoftUCBPolicy
        >>> policy = SoftUCBPolicy(2, beta_init=SituationBeta(horizon=100, init=0.5))
        >>> policy(torch.eye(2)).beta
        tensor(0.5000, grad_fn=<MulBackward0>)
    """

    horizon: int

    def __init__(self, *, horizon: int, init: float = 1.0, hidden: int = 16, inputs: Sequence[str] = SITUATION) -> None:
        super().__init__()
        self.horizon = check_integer("SituationBeta", "horizon", horizon, low=1)
        self.init = check_number("SituationBeta", "init", init, low=0.0, open_low=True)
        for name in inputs:
            check_choice("SituationBeta", "inputs", name, SITUATION)
        if not inputs or len(set(inputs)) < len(inputs):
            raise ValueError(f"SituationBeta: inputs must be at least one name, each of them once, got {tuple(inputs)!r}")
        self.inputs = tuple(inputs)
        size = len(self.inputs) + 2 * ("num_observations" in self.inputs)
        self.hidden = nn.Linear(size, check_integer("SituationBeta", "hidden", hidden, low=1))
        self.linear = nn.Linear(size, 1)
        self.correction = nn.Linear(hidden, 1, bias=False)
        for layer in (self.linear, self.correction):
            nn.init.zeros_(layer.weight)
        nn.init.zeros_(self.linear.bias)

    @classmethod
    def pretrained(cls, *, horizon: int) -> Self:
        """Load the network that comes with the package, trained on a family of problems by ``scripts/pretrain.py``."""
        return cls.load(PRETRAINED, horizon=horizon)[0]

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, horizon: int) -> tuple[Self, dict[str, str]]:
        """Load a network that :meth:`save` wrote.

        Args:
            path: file of :meth:`save`.
            horizon: number of rounds T.

        Returns:
            The network, and the notes that were saved with it.

        Raises:
            ValueError: if the file cannot be read, is damaged, or is not what :meth:`save` writes.
        """
        return load_network(path, partial(cls, horizon=horizon), name="SituationBeta", settings=("init", "inputs"))

    def save(self, path: str | os.PathLike[str], **about: str) -> None:
        """Write the network as safetensors with a checksum.

        Args:
            path: file to write.
            **about: notes to save with it.
        """
        save_network(path, self, {"init": self.init, "inputs": list(self.inputs)}, about)

    @property
    def typical(self) -> float:
        """Beta before training."""
        return self.init

    def scaled(self, situation: Tensor) -> Tensor:  # (*B, F) -> (*B, units of the input layer)
        """Scale the inputs to about [-1, 1]; time becomes three inputs."""
        parts = []
        for i, name in enumerate(self.inputs):
            value = situation[..., i]
            if name == "num_observations":
                log_horizon = torch.full_like(value, math.log(self.horizon) - 7)
                parts += [(2 * value / self.horizon).clamp(max=2) - 1, torch.log1p(value) / 3 - 1, log_horizon / 2]
            else:
                centre, size = _CENTRE_AND_SCALE[name]
                parts.append((value - centre) / size)
        return torch.stack(parts, dim=-1)

    def forward(self, situation: Tensor, bandit: Tensor | None = None) -> Tensor:  # (*B, F) -> (*B,)
        """Return init times the exponential of the network's output."""
        scaled = self.scaled(situation)
        log_ratio = self.linear(scaled) + self.correction(torch.tanh(self.hidden(scaled)))
        beta: Tensor = self.init * F.bounded(log_ratio.squeeze(-1), -_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
        return beta


_CENTRE_AND_SCALE = {  # typical value and spread of each input
    "log_arms": (4.0, 1.0),
    "log_dim": (2.3, 0.7),
    "log_noise": (-1.0, 1.0),
    "log_det": (2.5, 1.5),
    "log_width_low": (-2.5, 1.0),
    "log_width_mid": (-1.2, 1.0),
    "log_width_high": (-0.7, 0.7),
}

_MAX_LOG_RATIO = 5.0  # largest |log(beta / init)|: beyond e^5 there is nothing to learn
