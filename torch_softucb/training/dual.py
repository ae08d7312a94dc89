"""eta that tunes itself."""

import math

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_number


class Dual(nn.Module):
    """eta as the multiplier of a target coverage; its state goes into checkpoints.

    Args:
        target: share of arms and rounds in which |mu - mu_hat| <= beta width is to hold.
        eta_init: where eta starts; where it ends does not depend on it.
    """

    log_eta: Tensor
    error: Tensor

    def __init__(self, target: float, *, eta_init: float = 0.002) -> None:
        super().__init__()
        self.target = check_number("Dual", "target_coverage", target, low=0.0, high=1.0, open_low=True)
        start = check_number("Dual", "eta_init", eta_init, low=0.0, open_low=True)
        self.register_buffer("log_eta", torch.tensor(math.log(start)))
        self.register_buffer("error", torch.zeros(()))

    @property
    def eta(self) -> float:
        return float(self.log_eta.exp())

    @torch.no_grad()
    def weigh(self, coverage: Tensor) -> Tensor:  # ()
        """The eta for a batch that was covered so; every process sees the mean of all."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            coverage = coverage.clone()
            torch.distributed.all_reduce(coverage)
            coverage = coverage / torch.distributed.get_world_size()
        self.error.copy_(F.coverage_error(coverage, self.target))
        return F.dual_eta(self.log_eta, self.error)

    @torch.no_grad()
    def step(self) -> None:
        """Climb by what the last batch showed."""
        self.log_eta.copy_(F.dual_ascent(self.log_eta, self.error))
