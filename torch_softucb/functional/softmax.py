"""From index to probabilities: the coldness (Eq. 9 and its smooth variant, D6), softmax (Eq. 8), greedy choice.

The coldness gamma is the inverse temperature of the softmax. Eq. 9 is computed in three places, which
tests/functional/test_twins.py compares: ``_coldness`` below (torch), policies/fast_path.py (numpy, one decision) and
simulation/backends/rounds.cpp (C++, rollouts).
"""

import math

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_axis, check_batch, check_delta, check_mask, check_number

SMALLEST = 1e-35  # max S up to which gamma is 0, in every dtype: log(|L| delta / (1 - delta)) / max S would overflow float32


def masked(values: Tensor, mask: Tensor | None) -> Tensor:  # (*B, K) -> (*B, K)
    """Return ``values`` with -inf at arms that are not allowed."""
    return values if mask is None else values.masked_fill(~mask, -math.inf)


def max_index(index: Tensor, mask: Tensor | None) -> Tensor:  # (*B, K) -> (*B,)
    """Return max S over the allowed arms."""
    return masked(index, mask).amax(-1)


def odds_of(delta: float | Tensor, dtype: torch.dtype) -> float | Tensor:
    """Return delta / (1 - delta), computed in delta's own dtype: a learned delta is float64."""
    odds = delta / (1 - delta)
    return odds.to(dtype) if isinstance(odds, Tensor) else odds


def coldness(
    index: Tensor,  # (*B, K)
    delta: float,
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B,)
    """Softmax coldness gamma = log(delta |L| / (1 - delta)) / max S, where L holds the allowed arms with S < 0 (Eq. 9).

    Departure D1: Eq. 9 is undefined when L is empty (log 0) or max S <= 0 (always the case at beta = 0). Both mean that
    there is nothing to eliminate yet, so gamma = 0 and the policy is uniform. A max S of at most 1e-35 counts as 0: gamma
    would overflow.

    The result is differentiable through max S. |L| is a count, so gamma jumps where it changes; see
    :func:`smooth_coldness`.

    Args:
        index: index S of every arm.
        delta: in [0.5, 1); the arms in L together get a probability below 1 - delta (Lemma 2).
        mask: True = allowed.

    Example:
        >>> coldness(torch.tensor([0.2, -0.7]), 0.9)  # log(9) / 0.2
        tensor(10.9861)
    """
    delta = check_delta("coldness", delta)
    check_arm_axis("coldness", "index", index)
    check_mask("coldness", mask, index.shape)
    return _coldness(index, delta, mask, max_index(index, mask))


def _coldness(
    index: Tensor,  # (*B, K)
    delta: float | Tensor,
    mask: Tensor | None,
    s_max: Tensor,  # (*B,) max_index
) -> Tensor:  # (*B,)
    low = index.sign().clamp_(max=0)  # -1 for an arm in L, else 0: takes a third of the time of counting bools
    if mask is not None:
        low = low.masked_fill(~mask, 0.0)
    minus_low = low.sum(-1)  # -|L|, in index's dtype: the log of an int64 count would be float32
    nothing = (minus_low >= 0) | (s_max <= SMALLEST)  # D1
    odds = odds_of(delta, index.dtype)
    # division by inf gives 0, and a gradient of 0, where there is nothing to eliminate
    return torch.log(minus_low.clamp(max=-1) * -odds) / s_max.masked_fill(nothing, math.inf)  # Eq. 9


def smooth_coldness(
    index: Tensor,  # (*B, K)
    delta: float,
    *,
    smoothing: float = 0.1,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B,)
    """Coldness that is continuous in beta: the count |L| becomes a soft count n >= |L| (departure D6, ``smooth``).

    n = sum_i exp(-max(S_i, 0) / (smoothing max S)) and gamma = log(1 + n delta / (1 - delta)) / max S; gamma = 0 where
    max S <= 0. Lemma 2 still holds, because exp(gamma max S) >= delta |L| / (1 - delta).

    Args:
        index: index S of every arm.
        delta: in [0.5, 1), as in :func:`coldness`.
        smoothing: kappa > 0; the smaller, the closer n is to |L|.
        mask: True = allowed.

    Example:
        >>> smooth_coldness(torch.tensor([0.2, -0.7]), 0.9)  # n = 1 + exp(-10), log(1 + 9 n) / 0.2
        tensor(11.5131)
    """
    delta = check_delta("smooth_coldness", delta)
    smoothing = check_number("smooth_coldness", "smoothing", smoothing, low=0.0, open_low=True)
    check_arm_axis("smooth_coldness", "index", index)
    check_mask("smooth_coldness", mask, index.shape)
    return _smooth_coldness(index, delta, smoothing, mask, max_index(index, mask))


def _smooth_coldness(
    index: Tensor,  # (*B, K)
    delta: float | Tensor,
    smoothing: float,
    mask: Tensor | None,
    s_max: Tensor,  # (*B,) max_index
) -> Tensor:  # (*B,)
    s_safe = s_max.masked_fill(s_max <= SMALLEST, math.inf)  # gamma and its gradient are then 0 (D1)
    count = _soft_count(index.clamp(min=0), s_safe.unsqueeze(-1), smoothing, mask).sum(-1)
    return torch.log1p(count * odds_of(delta, index.dtype)) / s_safe


def _soft_count(
    above: Tensor,  # (*B, K) max(S, 0)
    s_safe: Tensor,  # (*B, 1) max S, replaced by a positive number where it is not one
    smoothing: float,
    mask: Tensor | None,
) -> Tensor:  # (*B, K)
    """Return each arm's term of the soft count n: 1 for an arm in L, falling to exp(-1 / smoothing) at max S."""
    near_low = torch.exp(above / (-smoothing * s_safe))
    return near_low if mask is None else near_low.masked_fill(~mask, 0.0)


def arm_probabilities(
    index: Tensor,  # (*B, K)
    gamma: Tensor,  # () or (*B,)
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B, K)
    """Softmax over the allowed arms, p = softmax(gamma S) (Eq. 8); masked arms get exactly 0.

    Args:
        index: index S of every arm.
        gamma: coldness, >= 0.
        mask: True = allowed.

    Example:
        >>> arm_probabilities(torch.tensor([0.0, 0.0, 5.0]), torch.tensor(0.0), mask=torch.tensor([True, True, False]))
        tensor([0.5000, 0.5000, 0.0000])
    """
    check_arm_axis("arm_probabilities", "index", index)
    check_batch("arm_probabilities", "gamma", gamma, index.shape[:-1])
    check_mask("arm_probabilities", mask, index.shape)
    return _softmax(gamma.unsqueeze(-1) * index, mask)  # Eq. 8


def _softmax(
    logits: Tensor,  # (*B, K)
    mask: Tensor | None,
    top: Tensor | None = None,  # (*B,) largest allowed logit, if the caller has it
) -> Tensor:  # (*B, K)
    """Softmax over the last dimension that keeps the memory layout of its input; ``torch.softmax`` makes it contiguous.

    Overwrites ``logits`` unless autograd records, so pass a temporary.
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


def greedy_probabilities(
    index: Tensor,  # (*B, K)
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B, K)
    """Put all probability on the allowed arm with the largest index; tied arms share it equally.

    Arms within 16 units of rounding count as tied. Arms with unit features, for example, all start with width
    1 / sqrt(alpha) except for the last digit, and that digit should not decide.

    Args:
        index: what the arms are ranked by.
        mask: True = allowed.

    Example:
        >>> greedy_probabilities(torch.tensor([1.0, 3.0, 3.0]))
        tensor([0.0000, 0.5000, 0.5000])
    """
    check_arm_axis("greedy_probabilities", "index", index)
    check_mask("greedy_probabilities", mask, index.shape)
    return _greedy_probabilities(index, mask)


def _greedy_probabilities(index: Tensor, mask: Tensor | None) -> Tensor:  # (*B, K) -> (*B, K)
    index = masked(index, mask)
    top = index.amax(-1, keepdim=True)
    best = (index >= top - 16 * torch.finfo(index.dtype).eps * top.abs()).to(index.dtype)
    return best / best.sum(-1, keepdim=True)
