"""One beta for every segment."""

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.policies._checks import check_segments
from torch_softucb.policies.beta.base import BetaModule


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
