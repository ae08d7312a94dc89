"""A small network over the situation."""

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_choice, check_integer, check_number
from torch_softucb.policies._checks import check_inputs
from torch_softucb.policies.beta.base import BetaModule
from torch_softucb.policies.beta.situation import SITUATION

PRETRAINED = Path(__file__).with_name("pretrained") / "situation.safetensors"


class SituationBeta(BetaModule):
    """A small network over the situation; it starts as the number ``init`` everywhere.

    log beta is a linear function of the inputs (so beta can be a product of powers of noise, d, K, ...) plus one hidden
    layer's correction; inputs are brought to the size of 1 by fixed numbers.

    Args:
        horizon: T, for t / T.
        init: beta before anything was learned.
        hidden: units of the hidden layer.
        inputs: what it sees, names of :data:`SITUATION`; ``num_observations`` becomes t / T and log(1 + t) and log T.

    Example:
        >>> from torch_softucb import SoftUCBPolicy
        >>> policy = SoftUCBPolicy(2, beta_init=SituationBeta(horizon=100, init=0.5))
        >>> policy(torch.eye(2)).beta
        tensor(0.5000, grad_fn=<MulBackward0>)
    """

    def __init__(self, *, horizon: int, init: float = 1.0, hidden: int = 16, inputs: Sequence[str] = SITUATION) -> None:
        super().__init__()
        self.horizon = check_integer("SituationBeta", "horizon", horizon, low=1)
        self.init = check_number("SituationBeta", "init", init, low=0.0, open_low=True)
        for name in inputs:
            check_choice("SituationBeta", "inputs", name, SITUATION)
        check_inputs("SituationBeta", inputs)
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
        """The network that comes with the package: learned over a family of problems by ``scripts/pretrain.py``."""
        return cls.load(PRETRAINED, horizon=horizon)[0]

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, horizon: int) -> tuple[Self, dict[str, str]]:
        """A network that :meth:`save` wrote, and what was said about it."""
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            about = file.metadata()
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        module = cls(horizon=horizon, **json.loads(about.pop("module")))
        module.load_state_dict(state)
        return module, about

    def save(self, path: str | os.PathLike[str], **about: str) -> None:
        """Write the network as safetensors, with what is to be known about it."""
        from safetensors.torch import save_file

        made = {"init": self.init, "hidden": self.hidden.out_features, "inputs": list(self.inputs)}
        save_file(self.state_dict(), path, metadata={"module": json.dumps(made), **about})

    @property
    def typical(self) -> float:
        return self.init

    def scaled(self, situation: Tensor) -> Tensor:  # (*B, F) -> (*B, inputs)
        parts = []
        for i, name in enumerate(self.inputs):
            value = situation[..., i]
            if name == "num_observations":
                long = torch.full_like(value, math.log(self.horizon) - 7)
                parts += [(2 * value / self.horizon).clamp(max=2) - 1, torch.log1p(value) / 3 - 1, long / 2]
            else:
                centre, size = _CENTRE_AND_SCALE[name]
                parts.append((value - centre) / size)
        return torch.stack(parts, dim=-1)

    def forward(self, situation: Tensor, bandit: Tensor | None = None) -> Tensor:
        scaled = self.scaled(situation)
        bend = self.linear(scaled) + self.correction(torch.tanh(self.hidden(scaled)))
        beta: Tensor = self.init * F.bounded(bend.squeeze(-1), -_MOST, _MOST).exp()
        return beta


_CENTRE_AND_SCALE = {  # where an input usually lies, and how far it strays
    "log_arms": (4.0, 1.0),
    "log_dim": (2.3, 0.7),
    "log_noise": (-1.0, 1.0),
    "log_det": (2.5, 1.5),
    "log_width_low": (-2.5, 1.0),
    "log_width_mid": (-1.2, 1.0),
    "log_width_high": (-0.7, 0.7),
}

_MOST = 5.0  # of |log(beta / init)|: beyond e^5 nothing is to be learned
