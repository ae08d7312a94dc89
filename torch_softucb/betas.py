"""Beta as a module: one for every segment, a schedule over the horizon, or a small network over the situation.

``SoftUCBPolicy(beta_init=module)`` asks it in every decision. What a module may look at are the numbers of
:data:`SITUATION`; a module says which by ``looks_at`` and gets them as the last dim of one tensor, so that a whole
trajectory's rounds can be put to it at once.
"""

import copy
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import (
    check_choice,
    check_float_tensor,
    check_integer,
    check_looks_at,
    check_number,
    check_positive,
    check_segments,
    check_shape,
)
from torch_softucb.functional.policy import masked
from torch_softucb.types import Estimate


def _log(width: Tensor) -> Tensor:
    return width.clamp(min=1e-6).log()


def _middle(width: Tensor, mask: Tensor | None) -> Tensor:  # (*B, K) -> (*B,)
    """The mean width of the allowed arms: a median would cost ten times the rest of the round."""
    if mask is None:
        return width.mean(-1)
    return width.masked_fill(~mask, 0.0).sum(-1) / mask.sum(-1)


def _arms(estimate: Estimate, mask: Tensor | None) -> Tensor:
    like = estimate.mu_hat
    if mask is None:
        return torch.full((), like.shape[-1], dtype=like.dtype, device=like.device)
    return mask.sum(-1).to(like.dtype)


def _tally(estimate: Estimate) -> Tensor:
    assert estimate.tally is not None
    return estimate.tally


_Look = Callable[[Estimate, Tensor | None], Tensor]
_LOOKS: dict[str, _Look] = {
    "seen": lambda e, _: e.seen,
    "log_arms": lambda e, mask: _arms(e, mask).log(),
    "log_dim": lambda e, _: torch.full((), math.log(e.root.shape[-1]), dtype=e.mu_hat.dtype, device=e.mu_hat.device),
    "log_noise": lambda e, _: F.log_noise(_tally(e)[..., 0], _tally(e)[..., 1]),
    "log_det": lambda e, _: _tally(e)[..., 2] / e.root.shape[-1],
    "log_width_low": lambda e, mask: _log(-masked(-e.width, mask).amax(-1)),
    "log_width_mid": lambda e, mask: _log(_middle(e.width, mask)),
    "log_width_high": lambda e, mask: _log(masked(e.width, mask).amax(-1)),
}
SITUATION = tuple(_LOOKS)
"""Observations so far; log K of the allowed arms; log d; log of the running residual noise; log det of V / alpha, over d;
logs of the least, the mean and the largest width."""
_FROM_TALLY = ("log_noise", "log_det")


PRETRAINED = Path(__file__).with_name("pretrained") / "situation.safetensors"


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


class SegmentBeta(BetaModule):
    """One beta for every segment: bandits of a segment (users of a market, say) share it.

    Args:
        segments: the segment of every bandit, integers from 0, in the shape of the policy's batch.
        init: where every beta starts.

    Example:
        >>> from torch_softucb import SoftUCBPolicy
        >>> policy = SoftUCBPolicy(2, beta_init=SegmentBeta(torch.tensor([0, 1, 1]), init=0.5))
        >>> policy.reset(batch_shape=(3,))
        >>> policy(torch.eye(2)).beta
        tensor([0.5000, 0.5000, 0.5000], grad_fn=<IndexBackward0>)
    """

    segments: Tensor
    lr = 0.3  # shares of a beta

    def __init__(self, segments: Tensor, *, init: float = 1.0) -> None:
        super().__init__()
        check_segments("SegmentBeta", segments)
        init = check_number("SegmentBeta", "init", init, low=0.0)
        self.register_buffer("segments", segments.long())
        self.raw = nn.Parameter(torch.full((int(segments.max()) + 1,), init))

    @property
    def positive_parameters(self) -> list[nn.Parameter]:
        return [self.raw]

    @torch.no_grad()
    def project_(self) -> None:
        self.raw.clamp_(min=0)

    @property
    def typical(self) -> float:
        return float(F.nonnegative(self.raw).detach()[self.segments].mean())

    def forward(self, situation: Tensor, bandit: Tensor | None = None) -> Tensor:
        return F.nonnegative(self.raw)[self.segments if bandit is None else self.segments[bandit]]


class ScheduleBeta(BetaModule):
    """beta along the horizon: numbers at equally spaced places of t / T, straight lines between them, the last one after T.

    Their logarithms are learned: towards the end a small beta is good, but one of exactly 0 would play at random (D1).

    Args:
        horizon: T.
        init: beta > 0 at the places, or one number for ``knots`` places.
        knots: how many places.

    Example:
        >>> schedule = ScheduleBeta(100, init=torch.tensor([1.0, 0.5]))
        >>> schedule(torch.tensor([[0.0], [50.0], [100.0], [500.0]]))
        tensor([1.0000, 0.7500, 0.5000, 0.5000], grad_fn=<SumBackward1>)
    """

    looks_at = ("seen",)
    lr = 0.1  # of logarithms

    def __init__(self, horizon: int, *, init: float | Tensor = 1.0, knots: int = 5) -> None:
        super().__init__()
        self.horizon = check_integer("ScheduleBeta", "horizon", horizon, low=1)
        knots = check_integer("ScheduleBeta", "knots", knots, low=2)
        if not isinstance(init, Tensor):
            init = torch.full((knots,), check_number("ScheduleBeta", "init", init, low=0.0, open_low=True))
        check_float_tensor("ScheduleBeta", "init", init)
        check_shape("ScheduleBeta", "init", init.shape, init.dim() == 1 and len(init) > 0, "(knots,)")
        check_positive("ScheduleBeta", "init", init)
        self.log_beta = nn.Parameter(init.detach().log())

    @property
    def log_parameters(self) -> list[nn.Parameter]:
        return [self.log_beta]

    @property
    def typical(self) -> float:
        return float(self.log_beta.detach().exp().mean())

    def forward(self, situation: Tensor, bandit: Tensor | None = None) -> Tensor:
        beta, last = self.log_beta.exp(), len(self.log_beta) - 1
        place = (situation[..., 0] / self.horizon * last).clamp(0, last)
        knots = torch.arange(last + 1, dtype=place.dtype, device=place.device)
        return ((1 - (place.unsqueeze(-1) - knots).abs()).clamp(min=0) * beta).sum(-1)  # each knot's part


class SituationBeta(BetaModule):
    """A small network over the situation; it starts as the number ``init`` everywhere.

    log beta is a linear function of the inputs (so beta can be a product of powers of noise, d, K, ...) plus one hidden
    layer's correction; inputs are brought to the size of 1 by fixed numbers.

    Args:
        horizon: T, for t / T.
        init: beta before anything was learned.
        hidden: units of the hidden layer.
        looks_at: what it sees, names of :data:`SITUATION`; ``seen`` becomes t / T and log(1 + t) and log T.

    Example:
        >>> from torch_softucb import SoftUCBPolicy
        >>> policy = SoftUCBPolicy(2, beta_init=SituationBeta(horizon=100, init=0.5))
        >>> policy(torch.eye(2)).beta
        tensor(0.5000, grad_fn=<MulBackward0>)
    """

    def __init__(self, *, horizon: int, init: float = 1.0, hidden: int = 16, looks_at: Sequence[str] = SITUATION) -> None:
        super().__init__()
        self.horizon = check_integer("SituationBeta", "horizon", horizon, low=1)
        self.init = check_number("SituationBeta", "init", init, low=0.0, open_low=True)
        for name in looks_at:
            check_choice("SituationBeta", "looks_at", name, SITUATION)
        check_looks_at("SituationBeta", looks_at)
        self.looks_at = tuple(looks_at)
        size = len(self.looks_at) + 2 * ("seen" in self.looks_at)
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

        made = {"init": self.init, "hidden": self.hidden.out_features, "looks_at": list(self.looks_at)}
        save_file(self.state_dict(), path, metadata={"module": json.dumps(made), **about})

    @property
    def typical(self) -> float:
        return self.init

    def inputs(self, situation: Tensor) -> Tensor:  # (*B, F) -> (*B, inputs)
        parts = []
        for i, name in enumerate(self.looks_at):
            value = situation[..., i]
            if name == "seen":
                long = torch.full_like(value, math.log(self.horizon) - 7)
                parts += [(2 * value / self.horizon).clamp(max=2) - 1, torch.log1p(value) / 3 - 1, long / 2]
            else:
                centre, size = _INPUTS[name]
                parts.append((value - centre) / size)
        return torch.stack(parts, dim=-1)

    def forward(self, situation: Tensor, bandit: Tensor | None = None) -> Tensor:
        inputs = self.inputs(situation)
        bend = self.linear(inputs) + self.correction(torch.tanh(self.hidden(inputs)))
        beta: Tensor = self.init * F.bounded(bend.squeeze(-1), -_MOST, _MOST).exp()
        return beta


_INPUTS = {  # where an input usually lies, and how far it strays
    "log_arms": (4.0, 1.0),
    "log_dim": (2.3, 0.7),
    "log_noise": (-1.0, 1.0),
    "log_det": (2.5, 1.5),
    "log_width_low": (-2.5, 1.0),
    "log_width_mid": (-1.2, 1.0),
    "log_width_high": (-0.7, 0.7),
}
_MOST = 5.0  # of |log(beta / init)|: beyond e^5 nothing is to be learned
