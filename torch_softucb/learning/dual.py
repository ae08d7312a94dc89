"""eta that tunes itself."""

import math

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.functional.dual import MOST_TARGET
from torch_softucb.functional.prequential import _add_residuals


def mean_of_processes(value: Tensor) -> Tensor:
    """Of one process: the value itself."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return value
    value = value.clone()
    torch.distributed.all_reduce(value)
    return value / torch.distributed.get_world_size()


class Dual(nn.Module):
    """eta as the multiplier of a target coverage; its state goes into checkpoints.

    Args:
        target: share of arms and rounds in which |mu - mu_hat| <= beta width is to hold.
        eta_init: where eta starts; where it ends does not depend on it.
        shape: () for one eta, or that of the trajectories with one each.
    """

    log_eta: Tensor
    error: Tensor

    def __init__(self, target: float, *, eta_init: float = 0.002, shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.target = check_number(
            "Dual", "target_coverage", target, low=0.0, high=MOST_TARGET, open_low=True, closed_high=True
        )
        start = check_number("Dual", "eta_init", eta_init, low=0.0, open_low=True)
        self.register_buffer("log_eta", torch.full(shape, math.log(start)))
        self.register_buffer("error", torch.zeros(shape))

    @property
    def eta(self) -> float:
        """Of many: their geometric mean."""
        return float(self.log_eta.mean().exp())

    @torch.no_grad()
    def weigh(self, coverage: Tensor) -> Tensor:  # ()
        """The eta for a batch that was covered so; every process sees the mean of all."""
        coverage = mean_of_processes(coverage)
        self.error.copy_(F.coverage_error(coverage, self.target))
        return F.dual_eta(self.log_eta, self.error)

    @torch.no_grad()
    def step(self) -> None:
        """Climb by what the last batch showed."""
        self.log_eta.copy_(F.dual_ascent(self.log_eta, self.error))


class OnlineDual(Dual):
    """An eta for every trajectory in progress, driven by the coverage that its own rewards tell of: no mean is known.

    See functional/prequential.py.

    Args:
        target: as above.
        beta: where every beta starts: until rewards come it is taken to have the target coverage.
        eta_init: where every eta starts.
    """

    weight: Tensor
    squares: Tensor

    def __init__(self, target: float, *, beta: Tensor, eta_init: float = 1.0) -> None:  # (B,)
        super().__init__(target, eta_init=eta_init, shape=tuple(beta.shape))
        start = F.no_residuals(beta.detach(), self.target)
        self.register_buffer("weight", start.weight)
        self.register_buffer("squares", start.squares)

    @property
    def kappa(self) -> Tensor:  # (B,)
        return F.error_scale(F.Residuals(self.weight, self.squares))

    def coverage(self, beta: Tensor) -> Tensor:  # (B,) -> (B,)
        """Estimated, at this beta."""
        return F.estimated_coverage(beta, self.kappa)

    @torch.no_grad()
    def observe(self, mu_hat: Tensor, width: Tensor, reward: Tensor) -> None:  # (B,) or (B, n) each
        """Rewards of played arms, with the estimates from before they came."""
        sums = _add_residuals(F.Residuals(self.weight, self.squares), mu_hat, width, reward)
        self.weight.copy_(sums.weight)
        self.squares.copy_(sums.squares)

    @torch.no_grad()
    def climb(self, beta: Tensor, reward: Tensor, penalty: Tensor) -> Tensor:  # (B,) each -> (B,)
        """Where beta should go, from the parts of Eq. 15 at eta = 1; eta goes its own step."""
        step = F.online_dual_step(beta, self.kappa, reward, penalty, self.log_eta, target=self.target)
        self.log_eta.copy_(step.log_eta)
        return step.gradient
