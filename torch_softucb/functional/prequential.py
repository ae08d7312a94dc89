r"""Estimate the coverage without knowing the true means, from how well the estimates predict the rewards.

The residual r = y - mu_hat of a played arm, with the estimate from before the reward, contains the noise and the error of
the estimate. If the ridge prior were right, r^2 would be noise^2 (1 + width^2) on average, and the error of any arm would
have scale noise * width. So errors are modelled as N(0, (kappa width)^2), where kappa^2 is the mean of r^2 / (1 + width^2)
with each round weighted by width^2: rounds with a small width measure only the noise, rounds with a large width also measure
the error of theta. Bounds at beta then hold with probability 2 Phi(beta / kappa) - 1, which is smooth in beta. Two running
sums per trajectory are enough.

A fit of r^2 = noise^2 + kappa^2 width^2 has less bias where the noise is large, but a single trajectory determines its slope
poorly, because widths are large in a few rounds only. After 64 rounds its best kappa is 0 in 10 to 45% of the trajectories.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_number, check_same_shape, check_shape
from torch_softucb.functional._checks import shape_text
from torch_softucb.functional.dual import coverage_error, dual_ascent, unsigned_slope

PSEUDO = 1.0  # weight of the prior belief about kappa, equal to one observation of an arm of width 1


class Residuals(NamedTuple):
    """Running sums over the residuals, of any batch shape.

    Attributes:
        weight: ``(*B,)`` sum of width^2.
        squares: ``(*B,)`` sum of width^2 r^2 / (1 + width^2).
    """

    weight: Tensor  # (*B,)
    squares: Tensor  # (*B,)


class DualStep(NamedTuple):
    """One step of beta and eta towards the target coverage.

    Attributes:
        gradient: ``(*B,)`` ascent direction for beta.
        log_eta: ``(*B,)`` log eta for the next round.
    """

    gradient: Tensor  # (*B,)
    log_eta: Tensor  # (*B,)


def no_residuals(beta: Tensor, target: float) -> Residuals:  # (*B,) -> (*B,)
    """Return the sums before the first reward: a prior belief under which ``beta`` has exactly the target coverage.

    Args:
        beta: confidence width.
        target: coverage, in (0, 1).

    Example:
        >>> sums = no_residuals(torch.tensor(1.0), 0.85)
        >>> estimated_coverage(torch.tensor(1.0), error_scale(sums))
        tensor(0.8500)
    """
    target = check_number("no_residuals", "target", target, low=0.0, high=1.0, open_low=True)
    kappa = beta / (math.sqrt(2) * torch.erfinv(torch.full_like(beta, target)))
    return Residuals(torch.full_like(beta, PSEUDO), PSEUDO * kappa.square())


def add_residuals(
    sums: Residuals,  # (*B,)
    mu_hat: Tensor,  # (*B,) or (*B, n)
    width: Tensor,  # likewise
    reward: Tensor,  # likewise
) -> Residuals:  # (*B,)
    """Add one round per trajectory, or n rounds at once.

    Args:
        sums: running sums so far.
        mu_hat: estimates of the played arms, from before their rewards.
        width: their widths, likewise.
        reward: observed rewards.

    Example:
        >>> sums = Residuals(torch.tensor(1.0), torch.tensor(0.25))
        >>> add_residuals(sums, torch.tensor(0.5), torch.tensor(1.0), torch.tensor(1.5))
        Residuals(weight=tensor(2.), squares=tensor(0.7500))
    """
    where, batch = "add_residuals", sums.weight.shape
    fits = mu_hat.shape == batch or mu_hat.shape[:-1] == batch
    check_shape(where, "mu_hat", mu_hat.shape, fits, f"{tuple(batch)} or {shape_text(*batch, 'n')}")
    check_same_shape(where, "width", width, "mu_hat", mu_hat)
    check_same_shape(where, "reward", reward, "mu_hat", mu_hat)
    return _add_residuals(sums, mu_hat, width, reward)


def _add_residuals(sums: Residuals, mu_hat: Tensor, width: Tensor, reward: Tensor) -> Residuals:
    weight = width.square()
    squares = weight * (reward - mu_hat).square() / (1 + weight)
    if width.dim() > sums.weight.dim():
        weight, squares = weight.sum(-1), squares.sum(-1)
    return Residuals(sums.weight + weight, sums.squares + squares)


def error_scale(sums: Residuals) -> Tensor:  # (*B,) -> (*B,)
    """Return kappa; the error of an estimate is about kappa width.

    Args:
        sums: running sums, from :func:`no_residuals` and :func:`add_residuals`.

    Example:
        >>> error_scale(Residuals(torch.tensor(2.0), torch.tensor(0.5)))
        tensor(0.5000)
    """
    return (sums.squares / sums.weight).sqrt()


def estimated_coverage(beta: Tensor, kappa: Tensor) -> Tensor:  # (*B,), (*B,) -> (*B,)
    """Probability that |mu - mu_hat| <= beta width if errors are N(0, (kappa width)^2).

    Args:
        beta: confidence width.
        kappa: from :func:`error_scale`.

    Example:
        >>> estimated_coverage(torch.tensor(1.0), torch.tensor(0.5))  # two standard deviations
        tensor(0.9545)
    """
    return torch.erf(beta / (math.sqrt(2) * kappa.clamp(min=torch.finfo(kappa.dtype).tiny)))


def online_dual_step(
    beta: Tensor,  # (*B,)
    kappa: Tensor,  # (*B,)
    reward: Tensor,  # (*B,)
    penalty: Tensor,  # (*B,)
    log_eta: Tensor,  # (*B,)
    *,
    target: float,
) -> DualStep:
    """Compute a step of beta and one of eta towards the target coverage.

    The step of beta is at most beta + kappa, so that one learning rate suits rewards of any scale. In equilibrium beta is
    kappa times the normal quantile of the target, and eta is the value for which Eq. 15 keeps beta there.

    Args:
        beta: confidence width.
        kappa: from :func:`error_scale`.
        reward: reward part of Eq. 15.
        penalty: penalty part of Eq. 15 at eta = 1.
        log_eta: the dual variable.
        target: coverage, in (0, 0.999].

    Example:
        >>> beta, kappa, one = torch.tensor(0.5), torch.tensor(0.5), torch.tensor(1.0)
        >>> online_dual_step(beta, kappa, -one, one, torch.tensor(0.0), target=0.95)  # covers 0.68: both rise
        DualStep(gradient=tensor(0.9914), log_eta=tensor(0.5446))
    """
    error = coverage_error(estimated_coverage(beta, kappa), target)
    slope = unsigned_slope(reward, penalty, log_eta, error)
    used = torch.where(reward != 0, error, torch.zeros_like(error))  # eta had no effect on the step where reward is 0
    return DualStep((beta + kappa) * slope, dual_ascent(log_eta, used))
