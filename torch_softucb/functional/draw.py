"""Drawing an arm from probabilities by the inverse distribution function: one uniform number a decision."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def draw_one(probs: NDArray[np.floating[Any]], uniform: float) -> Tensor:  # (K,) -> ()
    """:func:`draw_arm` for one decision, in numpy: torch's dispatch would cost more than the arithmetic."""
    cdf = np.add.accumulate(probs, dtype=np.float64)
    return torch.from_numpy(np.array(cdf.searchsorted(uniform * cdf[-1], "right")))


def draw_arm(
    probs: Tensor,  # (*B, K), 0 at masked arms
    uniform: Tensor,  # (*B,) in [0, 1)
) -> Tensor:  # (*B,) int64
    """The first arm whose cumulated probability exceeds ``uniform``: never an arm of probability 0.

    Example:
        >>> draw_arm(torch.tensor([[0.0, 0.5, 0.5, 0.0]] * 3), torch.tensor([0.0, 0.4, 0.99]))
        tensor([1, 1, 2])
    """
    if probs.dim() == 1 and probs.is_cpu and not (probs.requires_grad or torch.compiler.is_compiling()):
        return draw_one(probs.numpy(), uniform.item())
    cdf = probs.contiguous().cumsum(-1)
    threshold = (uniform * cdf.select(-1, -1)).unsqueeze(-1)  # rounding leaves the last entry off 1
    # right=True passes over a leading arm of mass 0; uniform < 1 keeps the threshold below the total, so some arm exceeds it
    return torch.searchsorted(cdf, threshold, right=True).squeeze(-1)
