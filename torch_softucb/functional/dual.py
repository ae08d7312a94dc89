"""eta as a dual variable: it rises while the confidence bounds cover too few arms and falls while they cover too many.

In Eq. 11 eta is the multiplier of |mu - mu_hat| <= beta width, for all arms and rounds. Requiring the bound always costs
regret. Here it is required for a target share of the cases, and eta follows by dual ascent on log eta, so that its initial
value does not matter. The coverage error is measured in logits: 0.999 is as far above 0.95 as 0.27 is below it. Part of the
error acts immediately (an augmented Lagrangian), which keeps beta and eta from oscillating. All functions work element by
element.
"""

import torch
from torch import Tensor

INTEGRAL = 0.25  # share of the error that is added to log eta permanently
PROPORTIONAL = 2.5  # share of the error that acts in the current step only
MOST_TARGET = 0.999  # largest coverage, both as a target and as measured
_MOST_LOG = 30.0  # largest |log eta|: a target that no beta reaches would otherwise drive exp(log eta) to overflow


def coverage_error(coverage: Tensor, target: float) -> Tensor:  # () -> ()
    """Return logit(target) - logit(coverage), with the coverage clamped to [0.001, 0.999].

    Args:
        coverage: measured share of arms whose confidence bound holds.
        target: share required, in (0, 0.999].

    Example:
        >>> coverage_error(torch.tensor(0.5), 0.9)  # log 9
        tensor(2.1972)
    """
    return torch.logit(torch.full_like(coverage, target)) - torch.logit(coverage.clamp(1 - MOST_TARGET, MOST_TARGET))


def dual_eta(log_eta: Tensor, error: Tensor) -> Tensor:  # (), () -> ()
    """Return the eta that weights the penalty in the current step.

    Args:
        log_eta: the dual variable.
        error: from :func:`coverage_error`.

    Example:
        >>> dual_eta(torch.tensor(0.0), torch.tensor(0.4))  # exp(2.5 * 0.4)
        tensor(2.7183)
    """
    return (log_eta + PROPORTIONAL * error).exp()


def dual_ascent(log_eta: Tensor, error: Tensor) -> Tensor:  # (), () -> ()
    """Return log eta for the next step, clamped to [-30, 30]; in log space eta >= 0 needs no projection.

    Args:
        log_eta: the dual variable.
        error: from :func:`coverage_error`.

    Example:
        >>> dual_ascent(torch.tensor(0.0), torch.tensor(0.4))  # 0.25 * 0.4
        tensor(0.1000)
    """
    return (log_eta + INTEGRAL * error).clamp(-_MOST_LOG, _MOST_LOG)


def lagrangian_size(reward: Tensor, penalty: Tensor, eta: Tensor) -> Tensor:  # (), (), () -> () above 0
    """Sum of the absolute values of the Lagrangian's two parts; steps are divided by it, which bounds them for every eta.

    Args:
        reward: reward part of beta's gradient.
        penalty: penalty part at eta = 1.
        eta: weight of the penalty.

    Example:
        >>> lagrangian_size(torch.tensor(-0.03), torch.tensor(10.0), torch.tensor(0.002))
        tensor(0.0500)
    """
    size = reward.abs() + eta * penalty.abs()
    return size.clamp(min=torch.finfo(size.dtype).tiny)


def normalised_slope(reward: Tensor, penalty: Tensor, eta: Tensor) -> Tensor:  # (), (), () -> () in [-1, 1]
    """Ascent direction of the Lagrangian in beta, divided by :func:`lagrangian_size`.

    Args:
        reward: reward part of beta's gradient.
        penalty: penalty part at eta = 1.
        eta: weight of the penalty.

    Example:
        >>> normalised_slope(torch.tensor(-0.03), torch.tensor(10.0), torch.tensor(0.002))  # (-0.03 + 0.02) / 0.05
        tensor(-0.2000)
    """
    return (reward + eta * penalty) / lagrangian_size(reward, penalty, eta)


def unsigned_slope(
    reward: Tensor,  # (*B,)
    penalty: Tensor,  # (*B,)
    log_eta: Tensor,  # (*B,)
    error: Tensor,  # (*B,)
) -> Tensor:  # (*B,) in [-1, 1]
    """Ascent direction for a single trajectory: :func:`normalised_slope` with the reward part taken as negative.

    Averaged over many trajectories the reward part of Eq. 13 is negative, because it never credits exploration. On a single
    trajectory it is noisy: if it is positive, no eta could stop beta from growing; if it is zero (uniform play, D1), only
    the coverage error drives the step.

    Args:
        reward: reward part of beta's gradient.
        penalty: penalty part at eta = 1, above 0.
        log_eta: the dual variable.
        error: from :func:`coverage_error`.

    Example:
        >>> reward = torch.tensor([-0.06, 0.06, 0.0])
        >>> unsigned_slope(reward, torch.full((3,), 10.0), torch.tensor(0.002).log(), torch.zeros(3))  # 0.02 against 0.06
        tensor([-0.5000, -0.5000,  0.0000])
    """
    informative = reward != 0
    down = torch.where(informative, -reward.abs(), -penalty)
    eta = dual_eta(torch.where(informative, log_eta, torch.zeros_like(log_eta)), error)
    return normalised_slope(down, penalty, eta)
