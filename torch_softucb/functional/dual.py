"""eta as a dual variable: it rises while the confidence bounds cover less than they should, and falls while they cover more.

In Eq. 11 eta is the multiplier of |mu - mu_hat| <= beta width, for all arms and rounds. Asking for it always costs regret;
asked for in a share of the cases, eta is found by dual ascent on log eta, and where it started does not matter. The error is
taken in logits, so that a coverage of 0.999 is as far from 0.95 as 0.27 is, and part of it acts at once (an augmented
Lagrangian), which keeps beta and eta from circling each other.
"""

import torch
from torch import Tensor

INTEGRAL, PROPORTIONAL = 0.25, 2.5  # of the error: what it adds to log eta for good, and in this step alone
MOST_TARGET = 0.999  # of a coverage, as it is measured and as it may be asked for
_MOST_LOG = 30.0  # of |log eta|: a target that no beta meets must not wind it up beyond what exp can hold


def coverage_error(coverage: Tensor, target: float) -> Tensor:  # (), () -> ()
    """logit(target) - logit(coverage), coverage kept within [0.001, 0.999].

    Example:
        >>> coverage_error(torch.tensor(0.5), 0.9)  # log 9
        tensor(2.1972)
    """
    return torch.logit(torch.full_like(coverage, target)) - torch.logit(coverage.clamp(1 - MOST_TARGET, MOST_TARGET))


def dual_eta(log_eta: Tensor, error: Tensor) -> Tensor:  # (), () -> ()
    """The eta that weighs the penalty in this step."""
    return (log_eta + PROPORTIONAL * error).exp()


def dual_ascent(log_eta: Tensor, error: Tensor) -> Tensor:  # (), () -> ()
    """log eta of the next step; projected on eta >= 0 by being a logarithm, and kept within e^-30 and e^30."""
    return (log_eta + INTEGRAL * error).clamp(-_MOST_LOG, _MOST_LOG)


def lagrangian_size(reward: Tensor, penalty: Tensor, eta: Tensor) -> Tensor:  # (), (), () -> () above 0
    """Size of the Lagrangian's two parts: what they are divided by, so that no eta makes a step large.

    Example:
        >>> lagrangian_size(torch.tensor(-0.03), torch.tensor(10.0), torch.tensor(0.002))
        tensor(0.0500)
    """
    size = reward.abs() + eta * penalty.abs()
    return size.clamp(min=torch.finfo(size.dtype).tiny)


def normalised_slope(reward: Tensor, penalty: Tensor, eta: Tensor) -> Tensor:  # (), (), () -> () in [-1, 1]
    """Ascent direction of the Lagrangian over the size of its two parts: a step that no eta can make large.

    Example:
        >>> normalised_slope(torch.tensor(-0.03), torch.tensor(10.0), torch.tensor(0.002))  # (-0.03 + 0.02) / 0.05
        tensor(-0.2000)
    """
    return (reward + eta * penalty) / lagrangian_size(reward, penalty, eta)


def unsigned_slope(
    reward: Tensor,  # (*B,) reward part of beta's gradient
    penalty: Tensor,  # (*B,) penalty part at eta = 1, above 0
    log_eta: Tensor,  # (*B,)
    error: Tensor,  # (*B,) coverage_error
) -> Tensor:  # (*B,) in [-1, 1]
    """:func:`normalised_slope` of one trajectory in progress: the reward part counts as a push down, whatever its sign.

    Over many trajectories Eq. 13's reward part is below 0, since it never credits exploration. In one it is noisy: where it
    is above 0 no eta could hold beta back. Where it is 0 (D1: play is uniform) only the error of the coverage speaks.

    Example:
        >>> reward = torch.tensor([-0.06, 0.06, 0.0])
        >>> unsigned_slope(reward, torch.full((3,), 10.0), torch.tensor(0.002).log(), torch.zeros(3))  # 0.02 against 0.06
        tensor([-0.5000, -0.5000,  0.0000])
    """
    heard = reward != 0
    down = torch.where(heard, -reward.abs(), -penalty)
    return normalised_slope(down, penalty, dual_eta(torch.where(heard, log_eta, torch.zeros_like(log_eta)), error))
