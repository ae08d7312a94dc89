"""Drawing an arm from probabilities by the inverse distribution function: one uniform number a decision."""

import torch
from torch import Tensor


def draw_arm(
    probs: Tensor,  # (*B, K), 0 at masked arms
    uniform: Tensor,  # (*B,) in [0, 1)
) -> Tensor:  # (*B,) int64
    """The first arm whose cumulated probability exceeds ``uniform``: never an arm of probability 0.

    Example:
        >>> draw_arm(torch.tensor([[0.0, 0.5, 0.5, 0.0]] * 3), torch.tensor([0.0, 0.4, 0.99]))
        tensor([1, 1, 2])
    """
    cdf = probs.contiguous().cumsum(-1)
    threshold = uniform.unsqueeze(-1) * cdf[..., -1:]  # rounding leaves the last entry off 1
    # right=True passes over a leading arm of mass 0; uniform < 1 keeps the threshold below the total, so some arm exceeds it
    return torch.searchsorted(cdf, threshold, right=True).squeeze(-1)
