"""One beta per segment of bandits."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.policies.beta.base import BetaModule


class SegmentBeta(BetaModule):
    """One beta per segment, shared by the bandits in it (the users of a market, for example).

    Args:
        segments: segment of each bandit, integers from 0, in the shape of the policy's batch.
        init: initial value of each beta.

    Example:
        >>> from torch_softucb import SoftUCBPolicy
        >>> policy = SoftUCBPolicy(2, beta_init=SegmentBeta(torch.tensor([0, 1, 1]), init=0.5))
        >>> policy.reset(batch_shape=(3,))
        >>> policy(torch.eye(2)).beta
        tensor([0.5000, 0.5000, 0.5000], grad_fn=<IndexBackward0>)
    """

    segments: Tensor  # (*B,) int64
    lr = 0.3  # multiplicative steps

    def __init__(self, segments: Tensor, *, init: float = 1.0) -> None:
        super().__init__()
        _check_segments(segments)
        init = check_number("SegmentBeta", "init", init, low=0.0)
        self.register_buffer("segments", segments.long())
        self.raw = nn.Parameter(torch.full((int(segments.max()) + 1,), init))

    @property
    def positive_parameters(self) -> list[nn.Parameter]:
        """Raw betas of the segments."""
        return [self.raw]

    @torch.no_grad()
    def project_(self) -> None:
        """Clamp raw betas to 0 from below; see ``SoftUCBPolicy.project_``."""
        self.raw.clamp_(min=0)

    def check_state(self, state_dict: Mapping[str, Any], *, prefix: str = "") -> None:
        """Raise ValueError if segments are not numbers of betas."""
        segments: Tensor = state_dict.get(f"{prefix}segments", self.segments)
        if not segments.is_meta and not 0 <= int(segments.min()) <= int(segments.max()) < len(self.raw):
            raise ValueError(f"SegmentBeta.load_state_dict: segments must be from 0 to {len(self.raw) - 1}")

    @property
    def typical(self) -> float:
        """Mean beta over the bandits."""
        return float(F.nonnegative(self.raw).detach()[self.segments].mean())

    def forward(self, situation: Tensor, bandit: Tensor | None = None) -> Tensor:  # (*B,) or (N,)
        """Return the beta of each bandit's segment; the situation is not used."""
        return F.nonnegative(self.raw)[self.segments if bandit is None else self.segments[bandit]]


def _check_segments(segments: Tensor) -> None:
    integer = isinstance(segments, Tensor) and not segments.is_floating_point() and segments.dtype != torch.bool
    if not integer or not segments.numel() or bool((segments < 0).any()):
        got = f"{segments.dtype} {tuple(segments.shape)}" if isinstance(segments, Tensor) else type(segments).__name__
        raise ValueError(f"SegmentBeta: segments must be integers >= 0, one per bandit, got {got}; number them from 0")
