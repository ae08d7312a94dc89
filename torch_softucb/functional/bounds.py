"""Theoretical quantities: the bound on beta (Eq. 5), the bound on the regret (Eq. 16), and Thompson sampling's scale."""

import math
from typing import overload

import torch
from torch import Tensor

from torch_softucb.checks import check_delta, check_integer, check_number


@overload
def beta_upper_bound(
    *,
    dim: int,
    horizon: float,
    subgaussian_r: float,
    fail_prob: float,
    ridge_alpha: float = 1.0,
    theta_bound: float = 1.0,
) -> float: ...
@overload
def beta_upper_bound(
    *,
    dim: int,
    horizon: Tensor,
    subgaussian_r: float,
    fail_prob: float,
    ridge_alpha: float = 1.0,
    theta_bound: float = 1.0,
) -> Tensor: ...
def beta_upper_bound(
    *,
    dim: int,
    horizon: float | Tensor,
    subgaussian_r: float,
    fail_prob: float,
    ridge_alpha: float = 1.0,
    theta_bound: float = 1.0,
) -> float | Tensor:
    """Confidence width at which all confidence bounds hold with probability 1 - fail_prob (Eq. 5).

    Args:
        dim: number of features d.
        horizon: number of rounds T, or the current round t; a tensor of rounds gives a tensor of bounds.
        subgaussian_r: R of the reward noise; for Gaussian noise its standard deviation.
        fail_prob: probability, in (0, 1), that some bound fails.
        ridge_alpha: ridge weight alpha.
        theta_bound: C, an upper bound on the length of theta.

    Example:
        >>> f"{beta_upper_bound(dim=5, horizon=256, subgaussian_r=0.1**0.5, fail_prob=0.1):.4f}"  # Table 1, first column
        '2.5614'
    """
    where = "beta_upper_bound"
    check_integer(where, "dim", dim, low=1)
    r = check_number(where, "subgaussian_r", subgaussian_r, low=0.0)
    fail = check_number(where, "fail_prob", fail_prob, low=0.0, high=1.0, open_low=True)
    ridge = math.sqrt(check_number(where, "ridge_alpha", ridge_alpha, low=0.0, open_low=True))
    ridge *= check_number(where, "theta_bound", theta_bound, low=0.0)
    if isinstance(horizon, Tensor):
        return r * torch.sqrt(2 * math.log(1 / fail) + dim * torch.log1p(horizon / dim)) + ridge  # Eq. 5
    horizon = check_number(where, "horizon", horizon, low=0.0)
    return r * math.sqrt(2 * math.log(1 / fail) + dim * math.log1p(horizon / dim)) + ridge  # Eq. 5


def regret_bound(*, beta: float, dim: int, horizon: int, delta: float, ridge_alpha: float = 1.0) -> float:
    """Upper bound on SoftUCB's regret after T rounds, 4 sqrt(2) beta delta sqrt(T d log(alpha + T / d)) (Eq. 16).

    Args:
        beta: confidence width.
        dim: number of features d.
        horizon: number of rounds T.
        delta: in [0.5, 1), as in :func:`coldness`.
        ridge_alpha: ridge weight alpha; alpha + T / d must be at least 1.

    Example:
        >>> f"{regret_bound(beta=1.0, dim=1, horizon=1, delta=0.5, ridge_alpha=math.e - 1):.4f}"  # 4 sqrt(2) / 2
        '2.8284'
    """
    where = "regret_bound"
    beta = check_number(where, "beta", beta, low=0.0)
    check_integer(where, "dim", dim, low=1)
    check_integer(where, "horizon", horizon, low=1)
    delta = check_delta(where, delta)
    alpha = check_number(where, "ridge_alpha", ridge_alpha, low=0.0, open_low=True)
    inside = check_number(where, "ridge_alpha + horizon / dim", alpha + horizon / dim, low=1.0)  # its log is under a root
    return 4 * math.sqrt(2) * beta * delta * math.sqrt(horizon * dim * math.log(inside))  # Eq. 16


@overload
def thompson_scale(*, dim: int, horizon: float, subgaussian_r: float, fail_prob: float) -> float: ...
@overload
def thompson_scale(*, dim: int, horizon: Tensor, subgaussian_r: float, fail_prob: float) -> Tensor: ...
def thompson_scale(*, dim: int, horizon: float | Tensor, subgaussian_r: float, fail_prob: float) -> float | Tensor:
    """Scale of the posterior in linear Thompson sampling, v = R sqrt(9 d log(t / fail_prob)).

    S. Agrawal, N. Goyal: Thompson sampling for contextual bandits with linear payoffs, ICML 2013.

    Args:
        dim: number of features d.
        horizon: current round t, at least 1, or T; a tensor of rounds gives a tensor of scales.
        subgaussian_r: R of the reward noise; for Gaussian noise its standard deviation.
        fail_prob: probability, in (0, 1), that the regret bound fails.

    Example:
        >>> f"{thompson_scale(dim=1, horizon=1, subgaussian_r=1.0, fail_prob=math.exp(-1)):.1f}"
        '3.0'
    """
    where = "thompson_scale"
    check_integer(where, "dim", dim, low=1)
    r = check_number(where, "subgaussian_r", subgaussian_r, low=0.0)
    fail = check_number(where, "fail_prob", fail_prob, low=0.0, high=1.0, open_low=True)
    if isinstance(horizon, Tensor):
        return r * torch.sqrt(9 * dim * torch.log(horizon / fail))
    horizon = check_number(where, "horizon", horizon, low=1.0)
    return r * math.sqrt(9 * dim * math.log(horizon / fail))
