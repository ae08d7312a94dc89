"""From index to probabilities: coldness (Eq. 9 and its smooth repair) and softmax (Eq. 8)."""

import math

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_axis, check_batch, check_delta, check_mask, check_number


def masked(values: Tensor, mask: Tensor | None) -> Tensor:
    """``values`` with -inf at the arms that are not allowed."""
    return values if mask is None else values.masked_fill(~mask, -math.inf)


def _softmax(logits: Tensor, mask: Tensor | None, top: Tensor | None = None) -> Tensor:
    """Softmax over the last dim that keeps the memory layout of its input; ``torch.softmax`` makes it contiguous.

    ``logits`` is a temporary of the caller's: it is written over where autograd does not record. ``top`` (*B,) is the
    largest allowed logit, where the caller knows it.
    """
    logits = masked(logits, mask)
    if logits.is_contiguous():
        return torch.softmax(logits, dim=-1)
    top = (logits.amax(-1) if top is None else top).detach().unsqueeze(-1)
    if torch.is_grad_enabled():
        mass = (logits - top).exp_()
        return mass / mass.sum(-1, keepdim=True)
    mass = logits.sub_(top).exp_()
    return mass.div_(mass.sum(-1, keepdim=True))


def coldness(
    index: Tensor,  # (*B, K)
    delta: float,
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B,)
    """Softmax coldness gamma, Eq. 9: log(delta |L| / (1 - delta)) / max S, with L the allowed arms of S < 0.

    Departure D1: no arm in L (log 0) or max S <= 0 (always so at beta = 0) means that there is nothing to eliminate yet:
    gamma = 0, the policy is uniform. Differentiable through max S; |L| is a count, and gamma jumps where it changes.

    Example:
        >>> coldness(torch.tensor([0.2, -0.7]), 0.9)  # log(9) / 0.2
        tensor(10.9861)
    """
    delta = check_delta("coldness", delta)
    check_arm_axis("coldness", "index", index)
    check_mask("coldness", mask, index.shape)
    return _coldness(index, delta, mask, max_index(index, mask))


def odds_of(delta: float | Tensor, dtype: torch.dtype) -> float | Tensor:
    """delta / (1 - delta), computed in delta's own dtype: a learned delta is float64."""
    odds = delta / (1 - delta)
    return odds.to(dtype) if isinstance(odds, Tensor) else odds


def max_index(index: Tensor, mask: Tensor | None) -> Tensor:  # (*B, K) -> (*B,)
    """max S over the allowed arms."""
    return masked(index, mask).amax(-1)


def _coldness(index: Tensor, delta: float | Tensor, mask: Tensor | None, s_max: Tensor) -> Tensor:
    low = index.sign().clamp_(max=0)  # -1 for an arm of L, else 0: a third of the time of counting bools
    if mask is not None:
        low = low.masked_fill(~mask, 0.0)
    minus_low = low.sum(-1)  # -|L|, in index's dtype: an int64 count would make log float32
    nothing = (minus_low >= 0) | (s_max <= 0)
    odds = odds_of(delta, index.dtype)
    # division by inf: gamma is 0 where there is nothing to eliminate, and so is its gradient
    return torch.log(minus_low.clamp(max=-1) * -odds) / s_max.masked_fill(nothing, math.inf)  # Eq. 9


def smooth_coldness(
    index: Tensor,  # (*B, K)
    delta: float,
    *,
    smoothing: float = 0.1,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B,)
    """Coldness that is continuous in beta (departure D6, ``smooth``): |L| becomes a soft count n >= |L|.

    n = sum_i exp(-max(S_i, 0) / (smoothing max S)), gamma = log(1 + n delta / (1 - delta)) / max S; 0 where max S <= 0.
    Lemma 2 still holds, as exp(gamma max S) >= delta |L| / (1 - delta).

    Example:
        >>> smooth_coldness(torch.tensor([0.2, -0.7]), 0.9)  # n = 1 + exp(-10), log(1 + 9 n) / 0.2
        tensor(11.5131)
    """
    delta = check_delta("smooth_coldness", delta)
    smoothing = check_number("smooth_coldness", "smoothing", smoothing, low=0.0, open_low=True)
    check_arm_axis("smooth_coldness", "index", index)
    check_mask("smooth_coldness", mask, index.shape)
    return _smooth_coldness(index, delta, smoothing, mask, max_index(index, mask))


def _smooth_coldness(index: Tensor, delta: float | Tensor, smoothing: float, mask: Tensor | None, s_max: Tensor) -> Tensor:
    s_safe = s_max.masked_fill(s_max <= 0, math.inf)  # then gamma is 0, and so is its gradient
    near_low = torch.exp(index.clamp(min=0) / (-smoothing * s_safe).unsqueeze(-1))
    if mask is not None:
        near_low = near_low.masked_fill(~mask, 0.0)
    return torch.log1p(near_low.sum(-1) * odds_of(delta, index.dtype)) / s_safe


def arm_probabilities(
    index: Tensor,  # (*B, K)
    gamma: Tensor,  # () or (*B,)
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B, K)
    """Softmax over the allowed arms, Eq. 8: p = softmax(gamma S); exactly 0 for masked arms.

    Example:
        >>> arm_probabilities(torch.tensor([0.0, 0.0, 5.0]), torch.tensor(0.0), mask=torch.tensor([True, True, False]))
        tensor([0.5000, 0.5000, 0.0000])
    """
    check_arm_axis("arm_probabilities", "index", index)
    check_batch("arm_probabilities", "gamma", gamma, index.shape[:-1])
    check_mask("arm_probabilities", mask, index.shape)
    return _softmax(gamma.unsqueeze(-1) * index, mask)  # Eq. 8


def greedy_probabilities(
    index: Tensor,  # (*B, K)
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B, K)
    """All mass on the arm of the largest index; arms that tie share it, so that no arm's position matters.

    Arms within 16 units of rounding tie: unit features all have width 1 / sqrt(alpha) at first, but not to the last digit,
    and that digit must not choose.

    Example:
        >>> greedy_probabilities(torch.tensor([1.0, 3.0, 3.0]))
        tensor([0.0000, 0.5000, 0.5000])
    """
    index = masked(index, mask)
    top = index.amax(-1, keepdim=True)
    best = (index >= top - 16 * torch.finfo(index.dtype).eps * top.abs()).to(index.dtype)
    return best / best.sum(-1, keepdim=True)
