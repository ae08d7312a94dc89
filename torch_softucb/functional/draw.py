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
    arm = torch.searchsorted(cdf, threshold, right=True)  # right=True: a leading arm of mass 0 is passed over
    # uniform < 1 keeps threshold below the total, so arm < K; should rounding lift it, the first arm that reaches the total is meant
    last = torch.searchsorted(cdf, cdf[..., -1:].contiguous())
    return torch.minimum(arm, last).squeeze(-1)
