"""Estimate the reward noise from the residuals of the ridge model."""

import torch
from torch import Tensor

from torch_softucb.checks import check_shape


def residual_sum(
    squares: Tensor,  # (*B,)
    root: Tensor,  # (*B, d, d)
    b: Tensor,  # (*B, d)
) -> Tensor:  # (*B,)
    """Smallest penalised sum of squares, min over theta of sum (y - x . theta)^2 + alpha |theta|^2.

    It equals sum y^2 - b . V^-1 b, and also the sum over rounds of (y - mu_hat)^2 / (1 + width^2), where each estimate is
    taken before its reward is observed.

    Args:
        squares: sum of y^2.
        root: a matrix with root root^T = V^-1, from :func:`ridge_root`.
        b: sum of x y.

    Example:
        >>> residual_sum(torch.tensor(4.0), torch.eye(1) / 2**0.5, torch.tensor([2.0]))  # y = 2 at x = 1, alpha = 1
        tensor(2.)
    """
    where, batch = "residual_sum", b.shape[:-1]
    check_shape(where, "b", b.shape, b.dim() >= 1, "(*B, d)")
    check_shape(where, "root", root.shape, root.shape == (*b.shape, b.shape[-1]), f"{(*b.shape, b.shape[-1])}")
    check_shape(where, "squares", squares.shape, squares.shape == batch, f"{tuple(batch)}")
    return _residual_sum(squares, root, b)


def _residual_sum(squares: Tensor, root: Tensor, b: Tensor) -> Tensor:  # (*B,), (*B, d, d), (*B, d) -> (*B,)
    return (squares - (root.mT @ b.unsqueeze(-1)).square().sum((-2, -1))).clamp(min=0)  # below 0 by rounding only


def log_noise(
    count: Tensor,  # (*B,)
    residual: Tensor,  # (*B,)
) -> Tensor:  # (*B,)
    """Logarithm of the running noise estimate, log sqrt((residual + 1) / (count + 1)).

    One residual of 1 is added, so that the estimate is defined before the first observation. Works element by element.

    Args:
        count: number of observations.
        residual: from :func:`residual_sum`.

    Example:
        >>> log_noise(torch.tensor(99.0), torch.tensor(24.0))  # log 0.5
        tensor(-0.6931)
    """
    return 0.5 * torch.log((residual + 1) / (count + 1))


def reward_sums(reward: Tensor) -> Tensor:  # (*B, n) -> (*B, 2)
    """Return the number of rewards and the sum of their squares, to be added to running sums.

    Args:
        reward: n rewards per bandit.

    Example:
        >>> reward_sums(torch.tensor([1.0, 2.0]))
        tensor([2., 5.])
    """
    return torch.stack((torch.full_like(reward[..., 0], reward.shape[-1]), reward.square().sum(-1)), dim=-1)
