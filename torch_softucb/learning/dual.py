"""eta as a dual variable: it adapts until the confidence bounds reach a target coverage."""

import math

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.functional.dual import MOST_TARGET
from torch_softucb.functional.prequential import _add_residuals


def mean_of_processes(value: Tensor) -> Tensor:
    """Mean of ``value`` over all processes of a distributed run; the value itself in a single process."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return value
    value = value.clone()
    torch.distributed.all_reduce(value)
    return value / torch.distributed.get_world_size()


class Dual(nn.Module):
    """eta as the Lagrange multiplier of a target coverage. Its state goes into checkpoints.

    Args:
        target: fraction of arms and rounds for which |mu - mu_hat| <= beta width should hold.
        eta_init: initial eta; where eta settles does not depend on it.
        shape: ``()`` for one eta, or the shape of the trajectories for one eta each.
        dtype: dtype of the state; torch's default dtype by default.
        device: device of the state.
    """

    log_eta: Tensor
    error: Tensor

    def __init__(
        self,
        target: float,
        *,
        eta_init: float = 0.002,
        shape: tuple[int, ...] = (),
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self.target = check_number(
            "Dual", "target_coverage", target, low=0.0, high=MOST_TARGET, open_low=True, closed_high=True
        )
        start = check_number("Dual", "eta_init", eta_init, low=0.0, open_low=True)
        self.register_buffer("log_eta", torch.full(shape, math.log(start), dtype=dtype, device=device))
        self.register_buffer("error", torch.zeros(shape, dtype=dtype, device=device))

    @property
    def eta(self) -> float:
        """Current eta; the geometric mean when there is one per trajectory."""
        return float(self.log_eta.mean().exp())

    @torch.no_grad()
    def weigh(self, coverage: Tensor) -> Tensor:  # ()
        """Return the eta for a batch with this coverage, averaged over processes."""
        coverage = mean_of_processes(coverage)
        self.error.copy_(F.coverage_error(coverage, self.target))
        return F.dual_eta(self.log_eta, self.error)

    @torch.no_grad()
    def step(self) -> None:
        """Take one ascent step with the coverage error of the last batch."""
        self.log_eta.copy_(F.dual_ascent(self.log_eta, self.error))


class OnlineDual(Dual):
    """One eta per trajectory in progress, driven by the coverage that the trajectory's rewards imply.

    True means are not known online; ``functional/prequential.py`` has the estimate that replaces them.

    Args:
        target: as for :class:`Dual`.
        beta: initial betas, ``()`` or ``(B,)``. Until rewards arrive they are assumed to have the target coverage.
        eta_init: initial eta.
    """

    weight: Tensor
    squares: Tensor

    def __init__(self, target: float, *, beta: Tensor, eta_init: float = 1.0) -> None:
        super().__init__(target, eta_init=eta_init, shape=tuple(beta.shape), dtype=beta.dtype, device=beta.device)
        start = F.no_residuals(beta.detach(), self.target)
        self.register_buffer("weight", start.weight)
        self.register_buffer("squares", start.squares)

    @property
    def kappa(self) -> Tensor:  # (B,)
        """Scale of the estimates' errors: an estimate is off by about kappa width."""
        return F.error_scale(F.Residuals(self.weight, self.squares))

    def coverage(self, beta: Tensor) -> Tensor:  # (B,) -> (B,)
        """Estimate the coverage of this beta."""
        return F.estimated_coverage(beta, self.kappa)

    @torch.no_grad()
    def observe(self, mu_hat: Tensor, width: Tensor, reward: Tensor) -> None:  # (B,) or (B, n) each
        """Add rewards of played arms, with the estimates made before the rewards arrived."""
        sums = _add_residuals(F.Residuals(self.weight, self.squares), mu_hat, width, reward)
        self.weight.copy_(sums.weight)
        self.squares.copy_(sums.squares)

    @torch.no_grad()
    def climb(self, beta: Tensor, reward: Tensor, penalty: Tensor) -> Tensor:  # (B,) each -> (B,)
        """Return the ascent direction of beta from the two parts of Eq. 15 at eta = 1, and step eta."""
        step = F.online_dual_step(beta, self.kappa, reward, penalty, self.log_eta, target=self.target)
        self.log_eta.copy_(step.log_eta)
        return step.gradient
