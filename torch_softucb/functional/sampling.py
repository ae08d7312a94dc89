"""Drawing arms: one by inversion of the distribution function, or a slate of k without replacement (Plackett-Luce)."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.checks import (
    check_arm_axis,
    check_integer,
    check_mask,
    check_same_shape,
    check_shape,
    values_readable,
)
from torch_softucb.errors import NumericalError
from torch_softucb.functional._checks import shape_text
from torch_softucb.functional.softmax import masked

_IN_NUMPY = (torch.float16, torch.float32, torch.float64)


def draw_one(probs: NDArray[np.floating[Any]], uniform: float) -> Tensor:  # (K,) -> ()
    """Draw one arm for one decision in numpy, where torch's dispatch would cost more than the arithmetic."""
    cdf = np.add.accumulate(probs, dtype=np.float64)
    arm = cdf.searchsorted(uniform * cdf[-1], "right")
    if arm >= len(cdf):
        raise _not_a_law(torch.from_numpy(np.asarray(probs)))
    return torch.from_numpy(np.array(arm))


def _not_a_law(probs: Tensor) -> NumericalError:  # (*B, K)
    """Return the error for probabilities that no arm can be drawn from: their sum is NaN, infinite or 0."""
    total = probs.sum(-1, dtype=torch.float64)
    bad = (~(total.isfinite() & (total > 0))).nonzero().tolist()
    row = f" in {len(bad)} rows, the first at {tuple(bad[0])}" if total.dim() and bad else ""
    return NumericalError(
        "draw_arm: probs must be finite with a sum above 0 and uniform in [0, 1), got "
        f"{int(probs.isnan().sum())} NaN of {probs.numel()} probabilities{row}; "
        "beta or the statistics that they were computed from may be NaN or infinite"
    )


def draw_arm(
    probs: Tensor,  # (*B, K)
    uniform: Tensor,  # (*B,)
) -> Tensor:  # (*B,) int64
    """Draw one arm per bandit: the first whose cumulative probability exceeds ``uniform``.

    An arm of probability 0 is never drawn. The sums are float64 whatever the dtype of ``probs``, so that with float64
    random numbers each arm is drawn with its stated probability (divided by the sum of all) to about 1e-15.

    Args:
        probs: probability of each arm, 0 at masked arms.
        uniform: random numbers in [0, 1), best in float64: float32 ones are multiples of 6e-8.

    Raises:
        NumericalError: probabilities are NaN or infinite, or all are 0.

    Example:
        >>> draw_arm(torch.tensor([[0.0, 0.5, 0.5, 0.0]] * 3), torch.tensor([0.0, 0.4, 0.99]))
        tensor([1, 1, 2])
    """
    check_arm_axis("draw_arm", "probs", probs)
    batch = probs.shape[:-1]
    check_shape("draw_arm", "uniform", uniform.shape, uniform.shape == batch, f"{tuple(batch)}, one number per bandit")
    return _draw_arm(probs, uniform)


def _draw_arm(probs: Tensor, uniform: Tensor) -> Tensor:  # (*B, K), (*B,) -> (*B,)
    if probs.dim() == 1 and probs.is_cpu and not (probs.requires_grad or torch.compiler.is_compiling()):
        return draw_one((probs if probs.dtype in _IN_NUMPY else probs.double()).numpy(), uniform.item())
    sums = probs.contiguous().double()  # in this order: copying float64 numbers into place takes longer
    fresh = not (probs.dtype == torch.float64 and probs.is_contiguous())
    cdf = sums.cumsum_(-1) if fresh else sums.cumsum(-1)  # in place where the numbers are a copy
    threshold = (uniform.double() * cdf.select(-1, -1)).unsqueeze(-1)  # rounding leaves the last entry slightly off 1
    # right=True skips leading arms of probability 0; uniform < 1 keeps the threshold below the last entry
    arm = torch.searchsorted(cdf, threshold, right=True).squeeze(-1)
    last = probs.shape[-1] - 1
    if not values_readable(arm):
        return arm.clamp(max=last)  # NaN must not become an index out of range; who can read values raises
    if arm.numel() and int(arm.amax()) > last:
        raise _not_a_law(probs)
    return arm


def draw_slate(
    log_probs: Tensor,  # (*B, K)
    index: Tensor,  # (*B, K)
    uniform: Tensor,  # (*B, K) float64
    *,
    k: int,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B, k) int64
    """Draw ``k`` different arms in order: those with the largest Gumbel-perturbed log-probabilities.

    The slate has the same distribution as arms drawn one after the other without replacement. Allowed arms of probability 0
    come last, ordered by decreasing index.

    Args:
        log_probs: log-probability of each arm, -inf at arms of probability 0.
        index: what the policy ranks arms by.
        uniform: random numbers in [0, 1).
        k: length of the slate, at most the number of allowed arms.
        mask: True = allowed.

    Raises:
        NumericalError: log-probabilities are NaN, or all are -inf.

    Example:
        >>> log_probs = torch.tensor([0.7, 0.0, 0.3]).log()
        >>> draw_slate(log_probs, torch.tensor([3.0, 2.0, 1.0]), torch.full((3,), 0.5, dtype=torch.double), k=3)
        tensor([0, 2, 1])
    """
    check_arm_axis("draw_slate", "log_probs", log_probs)
    check_same_shape("draw_slate", "index", index, "log_probs", log_probs)
    check_same_shape("draw_slate", "uniform", uniform, "log_probs", log_probs)
    check_integer("draw_slate", "k", k, low=1)
    check_mask("draw_slate", mask, log_probs.shape)
    return _draw_slate(log_probs, index, uniform, k, mask)


def _draw_slate(log_probs: Tensor, index: Tensor, uniform: Tensor, k: int, mask: Tensor | None) -> Tensor:  # -> (*B, k)
    if values_readable(log_probs) and log_probs.numel() and not math.isfinite(log_probs.amax(-1).sum().item()):
        raise _not_a_law(log_probs.exp())
    by_index = masked(index, mask).argsort(dim=-1, descending=True, stable=True)
    gumbel = -(-uniform.clamp(min=2.0**-54).log()).log()
    keys = (log_probs.to(gumbel.dtype) + gumbel).gather(-1, by_index)
    return by_index.gather(-1, keys.argsort(dim=-1, descending=True, stable=True)[..., :k])


def slate_log_prob(
    log_probs: Tensor,  # (*B, K)
    slate: Tensor,  # (*B, k) int64
) -> Tensor:  # (*B, k)
    """Log-probability of each item of a slate given the items before it (Plackett-Luce).

    The sum over items is the log-probability of the slate. Once all arms of positive probability have been placed, the
    items that follow are certain and have log-probability 0.

    Args:
        log_probs: log-probability of each arm, -inf at arms of probability 0.
        slate: different arms, in order.

    Example:
        >>> slate_log_prob(torch.tensor([0.5, 0.2, 0.3]).log(), torch.tensor([1, 0])).exp()  # 0.2, then 0.5 / 0.8
        tensor([0.2000, 0.6250])
    """
    check_arm_axis("slate_log_prob", "log_probs", log_probs)
    batch = log_probs.shape[:-1]
    check_shape(
        "slate_log_prob", "slate", slate.shape, slate.dim() >= 1 and slate.shape[:-1] == batch, shape_text(*batch, "k")
    )
    return _slate_log_prob(log_probs, slate)


def _slate_log_prob(log_probs: Tensor, slate: Tensor) -> Tensor:  # (*B, K), (*B, k) -> (*B, k)
    taken = torch.zeros(*slate.shape, log_probs.shape[-1], dtype=torch.bool, device=slate.device)
    taken.scatter_(-1, slate.unsqueeze(-1), True)
    before = taken.cumsum(-2) - taken.long() > 0  # (*B, k, K)
    left = log_probs.unsqueeze(-2).masked_fill(before, -torch.inf)
    certain = left.amax(-1) == -torch.inf  # no arm of positive probability is left
    total = left.masked_fill(certain.unsqueeze(-1), 0.0).logsumexp(-1)
    own = log_probs.gather(-1, slate)
    return torch.where(certain, torch.zeros_like(own), own.masked_fill(certain, 0.0) - total)
