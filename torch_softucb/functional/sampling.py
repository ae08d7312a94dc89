"""Drawing arms: one by the inverse distribution function, or a slate of k without replacement (Plackett-Luce)."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.functional.softmax import masked


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


def draw_slate(
    log_probs: Tensor,  # (*B, K), -inf at arms of probability 0
    index: Tensor,  # (*B, K)
    uniform: Tensor,  # (*B, K) in [0, 1), float64
    *,
    k: int,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B, k) int64
    """The ``k`` arms with the largest Gumbel-perturbed log-probabilities: the same law as drawing one by one.

    Allowed arms of probability 0 come last, those of larger index first.

    Example:
        >>> log_probs = torch.tensor([0.7, 0.0, 0.3]).log()
        >>> draw_slate(log_probs, torch.tensor([3.0, 2.0, 1.0]), torch.full((3,), 0.5, dtype=torch.double), k=3)
        tensor([0, 2, 1])
    """
    by_index = masked(index, mask).argsort(dim=-1, descending=True, stable=True)
    gumbel = -(-uniform.clamp(min=2.0**-54).log()).log()
    keys = (log_probs.to(gumbel.dtype) + gumbel).gather(-1, by_index)
    return by_index.gather(-1, keys.argsort(dim=-1, descending=True, stable=True)[..., :k])


def slate_log_prob(
    log_probs: Tensor,  # (*B, K), -inf at arms of probability 0
    slate: Tensor,  # (*B, k) different arms
) -> Tensor:  # (*B, k)
    """Log-probability of each item given the items before it; their sum is the slate's (Plackett-Luce).

    Where all arms of positive probability stand before an item, it follows for certain: 0.

    Example:
        >>> slate_log_prob(torch.tensor([0.5, 0.2, 0.3]).log(), torch.tensor([1, 0])).exp()  # 0.2, then 0.5 / 0.8
        tensor([0.2000, 0.6250])
    """
    taken = torch.zeros(*slate.shape, log_probs.shape[-1], dtype=torch.bool, device=slate.device)
    taken.scatter_(-1, slate.unsqueeze(-1), True)
    before = taken.cumsum(-2) - taken.long() > 0  # (*B, k, K)
    left = log_probs.unsqueeze(-2).masked_fill(before, -torch.inf)
    certain = left.amax(-1) == -torch.inf  # nothing with a probability is left
    total = left.masked_fill(certain.unsqueeze(-1), 0.0).logsumexp(-1)
    own = log_probs.gather(-1, slate)
    return torch.where(certain, torch.zeros_like(own), own.masked_fill(certain, 0.0) - total)
