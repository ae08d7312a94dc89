"""Running sums of each user's observations."""

import torch
from torch import Tensor

from torch_softucb.functional.scales import RegressionSums

_ROWS = 8192  # observations whose x x^T are in memory at once


def user_sums(
    x: Tensor,  # (n, d)
    reward: Tensor,  # (n,)
    owner: Tensor,  # (n,)
    *,
    num_users: int,
) -> RegressionSums:
    """Add up the observations of each user.

    Args:
        x: features, float64.
        reward: rewards, float64.
        owner: user of each observation, int64 in [0, num_users).
        num_users: number of users.

    Example:
        >>> x, reward = torch.tensor([[1.0], [2.0], [3.0]]).double(), torch.tensor([1.0, 1.0, 2.0]).double()
        >>> user_sums(x, reward, torch.tensor([0, 1, 0]), num_users=2).moment
        tensor([[7.],
                [2.]], dtype=torch.float64)
    """
    d = x.shape[1]
    if num_users == 1:
        gram = (x.mT @ x).unsqueeze(0)
    else:
        gram = x.new_zeros(num_users, d, d)
        for part in (slice(i, i + _ROWS) for i in range(0, len(x), _ROWS)):
            gram.index_add_(0, owner[part], x[part].unsqueeze(-1) * x[part].unsqueeze(-2))

    def total(values: Tensor) -> Tensor:  # (n, ...) -> (num_users, ...)
        return values.new_zeros(num_users, *values.shape[1:]).index_add_(0, owner, values)

    moment = total(x * reward.unsqueeze(-1))
    return RegressionSums(total(torch.ones_like(reward)), total(x), total(reward), gram, moment, total(reward.square()))
