r"""Coverage without known means: how far estimates are off, read from rewards that they had to foretell.

The residual r = y - mu_hat of a played arm, estimate taken before the reward came, holds noise and the estimate's error.
Were the ridge prior right, r^2 would be noise^2 (1 + width^2) on average, and the error of any arm noise * width. So let
errors be N(0, (kappa width)^2), with kappa^2 the mean of r^2 / (1 + width^2), each round weighted by width^2: rounds that
know their arm tell of the noise alone, those that do not tell also how far off theta is. Bounds at beta then hold in a share
2 Phi(beta / kappa) - 1 of the cases, smooth in beta. Two sums a trajectory are all that is kept.

A fit of r^2 = noise^2 + kappa^2 width^2 has less bias where the noise is large, but one trajectory tells too little of its
slope: widths are large in a few rounds only. After 64 rounds its best kappa is 0 in 10 to 45% of the trajectories.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.functional.dual import coverage_error, dual_ascent, unsigned_slope

PSEUDO = 1.0  # weight of what is believed before the first residual: that of an arm of width 1


class Residuals(NamedTuple):
    """What the residuals so far say; any batch shape."""

    weight: Tensor  # (*B,) sum of width^2
    squares: Tensor  # (*B,) sum of width^2 r^2 / (1 + width^2)


class DualStep(NamedTuple):
    gradient: Tensor  # (*B,) where beta should go
    log_eta: Tensor  # (*B,) of the next round


def no_residuals(beta: Tensor, target: float) -> Residuals:  # (*B,)
    """Before the first reward: as if beta had the target coverage.

    Example:
        >>> seen = no_residuals(torch.tensor(1.0), 0.85)
        >>> estimated_coverage(torch.tensor(1.0), error_scale(seen))
        tensor(0.8500)
    """
    target = check_number("no_residuals", "target", target, low=0.0, high=1.0, open_low=True)
    kappa = beta / (math.sqrt(2) * torch.erfinv(torch.full_like(beta, target)))
    return Residuals(torch.full_like(beta, PSEUDO), PSEUDO * kappa.square())


def add_residuals(
    sums: Residuals,  # (*B,)
    mu_hat: Tensor,  # (*B,) or (*B, n) of the arms played, before their rewards came
    width: Tensor,  # likewise
    reward: Tensor,  # likewise
) -> Residuals:
    """One more round of every trajectory, or n at once.

    Example:
        >>> seen = Residuals(torch.tensor(1.0), torch.tensor(0.25))
        >>> add_residuals(seen, torch.tensor(0.5), torch.tensor(1.0), torch.tensor(1.5))
        Residuals(weight=tensor(2.), squares=tensor(0.7500))
    """
    weight = width.square()
    squares = weight * (reward - mu_hat).square() / (1 + weight)
    if width.dim() > sums.weight.dim():
        weight, squares = weight.sum(-1), squares.sum(-1)
    return Residuals(sums.weight + weight, sums.squares + squares)


def error_scale(sums: Residuals) -> Tensor:  # (*B,)
    """kappa: an estimate is off by about kappa width.

    Example:
        >>> error_scale(Residuals(torch.tensor(2.0), torch.tensor(0.5)))
        tensor(0.5000)
    """
    return (sums.squares / sums.weight).sqrt()


def estimated_coverage(beta: Tensor, kappa: Tensor) -> Tensor:  # (*B,), (*B,) -> (*B,)
    """Share of arms with |mu - mu_hat| <= beta width, if errors are N(0, (kappa width)^2).

    Example:
        >>> estimated_coverage(torch.tensor(1.0), torch.tensor(0.5))  # two standard deviations
        tensor(0.9545)
    """
    return torch.erf(beta / (math.sqrt(2) * kappa.clamp(min=torch.finfo(kappa.dtype).tiny)))


def online_dual_step(
    beta: Tensor,  # (*B,)
    kappa: Tensor,  # (*B,) error_scale
    reward: Tensor,  # (*B,) reward part of Eq. 15
    penalty: Tensor,  # (*B,) its penalty part at eta = 1
    log_eta: Tensor,  # (*B,)
    *,
    target: float,
) -> DualStep:
    """A step of beta and one of eta towards the target coverage.

    beta's is at most beta + kappa, so that a learning rate suits rewards of any scale. At rest beta is kappa times the
    normal quantile of the target, and eta the one at which Eq. 15 would stay there.

    Example:
        >>> beta, kappa, one = torch.tensor(0.5), torch.tensor(0.5), torch.tensor(1.0)
        >>> online_dual_step(beta, kappa, -one, one, torch.tensor(0.0), target=0.95)  # covers 0.68: both rise
        DualStep(gradient=tensor(0.9914), log_eta=tensor(0.5446))
    """
    error = coverage_error(estimated_coverage(beta, kappa), target)
    slope = unsigned_slope(reward, penalty, log_eta, error)
    heard = torch.where(reward != 0, error, torch.zeros_like(error))  # else eta had no part in the step
    return DualStep((beta + kappa) * slope, dual_ascent(log_eta, heard))
