"""Inputs of beta modules: numbers that describe the situation of a decision."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.functional.softmax import masked
from torch_softucb.policies.decision import Estimate
from torch_softucb.policies.scales import SUMMARY


def _log(width: Tensor) -> Tensor:
    return width.clamp(min=1e-6).log()


def _middle(width: Tensor, mask: Tensor | None) -> Tensor:  # (*B, K) -> (*B,)
    """Mean width of the allowed arms; a median would cost ten times the rest of the round."""
    if mask is None:
        return width.mean(-1)
    return width.masked_fill(~mask, 0.0).sum(-1) / mask.sum(-1)


def _arms(estimate: Estimate, mask: Tensor | None) -> Tensor:  # () or (*B,)
    """Return the number of allowed arms."""
    like = estimate.mu_hat
    if mask is None:
        return torch.full((), like.shape[-1], dtype=like.dtype, device=like.device)
    return mask.sum(-1).to(like.dtype)


def _running_sums(estimate: Estimate) -> Tensor:  # (*B, 3)
    assert estimate.running_sums is not None  # the policy keeps them if module.needs_sums
    return estimate.running_sums


_Input = Callable[[Estimate, Tensor | None], Tensor]

_INPUTS: dict[str, _Input] = {
    "num_observations": lambda e, _: e.num_observations,
    "log_arms": lambda e, mask: _arms(e, mask).log(),
    "log_dim": lambda e, _: torch.full((), math.log(e.root.shape[-1]), dtype=e.mu_hat.dtype, device=e.mu_hat.device),
    "log_noise": lambda e, _: F.log_noise(_running_sums(e)[..., 0], _running_sums(e)[..., 1]),
    "log_det": lambda e, _: _running_sums(e)[..., 2] / e.root.shape[-1],
    "log_width_low": lambda e, mask: _log(-masked(-e.width, mask).amax(-1)),
    "log_width_mid": lambda e, mask: _log(_middle(e.width, mask)),
    "log_width_high": lambda e, mask: _log(masked(e.width, mask).amax(-1)),
}

SITUATION = tuple(_INPUTS)
"""Names of the inputs: number of observations; log K of the allowed arms; log d; log of the running residual noise;
log det(V / alpha) / d; logs of the smallest, the mean and the largest width."""

_FROM_SUMS = ("log_noise", "log_det")


def _summary(name: str) -> _Input:
    at = SUMMARY.index(name)

    def read(estimate: Estimate, mask: Tensor | None) -> Tensor:  # (*B,)
        if estimate.summary is None:
            raise ValueError(
                "SummaryBeta: the policy must estimate its scales; use SoftUCBPolicy.auto, or another beta with this policy"
            )
        return estimate.summary[..., at]

    return read


_INPUTS |= {f"summary_{name}": _summary(name) for name in SUMMARY}

SUMMARY_INPUTS = (*(f"summary_{name}" for name in SUMMARY), "log_arms", "log_dim", "num_observations")
"""Names of the inputs that, except for the last, change only when a policy estimates its scales; see
:data:`~torch_softucb.policies.scales.SUMMARY`."""
