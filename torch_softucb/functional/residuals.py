"""How noisy the rewards were: what the ridge model has left unexplained."""

import torch
from torch import Tensor


def residual_sum(
    squares: Tensor,  # (*B,) sum y^2
    root: Tensor,  # (*B, d, d) root root^T = V^-1
    b: Tensor,  # (*B, d) sum x y
) -> Tensor:  # (*B,)
    """min over theta of sum (y - x . theta)^2 + alpha |theta|^2, which is sum y^2 - b . V^-1 b.

    It is also the sum over rounds of (y - mu_hat)^2 / (1 + width^2), estimates taken before each reward came.

    Example:
        >>> residual_sum(torch.tensor(4.0), torch.eye(1) / 2**0.5, torch.tensor([2.0]))  # y = 2 at x = 1, alpha = 1
        tensor(2.)
    """
    return (squares - (root.mT @ b.unsqueeze(-1)).square().sum((-2, -1))).clamp(min=0)  # 0 up to rounding


def log_noise(
    count: Tensor,  # (*B,) observations
    residual: Tensor,  # (*B,) residual_sum
) -> Tensor:  # (*B,)
    """log of the running residual noise; one residual of 1 is added, so that it is defined before anything was seen.

    Example:
        >>> log_noise(torch.tensor(99.0), torch.tensor(24.0))  # log 0.5
        tensor(-0.6931)
    """
    return 0.5 * torch.log((residual + 1) / (count + 1))


def reward_sums(reward: Tensor) -> Tensor:  # (*B, n) -> (*B, 2)
    """What n more rewards add: their number, and the sum of their squares.

    Example:
        >>> reward_sums(torch.tensor([1.0, 2.0]))
        tensor([2., 5.])
    """
    return torch.stack((torch.full_like(reward[..., 0], reward.shape[-1]), reward.square().sum(-1)), dim=-1)
