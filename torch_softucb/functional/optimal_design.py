"""G-optimal design: how to distribute pulls over arms so that the most uncertain arm is as certain as possible."""

import math

import torch
from torch import Tensor

from torch_softucb.checks import check_mask, check_shape
from torch_softucb.errors import NumericalError


def g_optimal_design(
    arms: Tensor,  # (*B, K, d)
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
    tolerance: float = 1e-3,
    max_steps: int = 20_000,
) -> tuple[Tensor, Tensor]:  # (*B, K), (*B,)
    """Weights p of the allowed arms that minimise max_i x_i . W^-1 x_i, W = sum_k p_k x_k x_k^T, and that maximum.

    By the theorem of Kiefer and Wolfowitz the smallest possible maximum is the dimension r of the arms' span; the result is
    within r (1 + tolerance). Computed in float64 by Frank-Wolfe with away steps (Wolfe and Atwood): each step moves weight
    to the arm with the largest norm, or away from the used arm with the smallest, with the optimal step size.

    J. Kiefer, J. Wolfowitz: The equivalence of two extremum problems, 1960; T. Lattimore, C. Szepesvari: Bandit Algorithms,
    2020, ch. 21.

    Args:
        arms: features of the arms.
        mask: True = may get weight.
        tolerance: relative distance to the optimum.
        max_steps: number of steps after which to give up.

    Returns:
        The weights, and the largest norm.

    Raises:
        NumericalError: the tolerance was not reached.

    Example:
        >>> weights, most = g_optimal_design(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
        >>> weights.round(decimals=3), round(most.item(), 3)
        (tensor([0.5000, 0.5000, 0.0000]), 2.0)
    """
    where = "g_optimal_design"
    check_shape(where, "arms", arms.shape, arms.dim() >= 2 and arms.shape[-2] >= 1, "(*B, K, d) with K >= 1")
    check_mask(where, mask, arms.shape[:-1])
    allowed = torch.ones(arms.shape[:-1], dtype=torch.bool, device=arms.device)
    if mask is not None:
        allowed = mask.expand(arms.shape[:-1])
    x = _in_span(arms.double() * allowed.unsqueeze(-1))
    rank = (x.square().sum(-2) > 0).sum(-1, keepdim=True).double()  # (*B, 1)
    weights = allowed.double() / allowed.sum(-1, keepdim=True)
    blocked, enough = ~allowed, rank * (1 + 0.5 * tolerance)
    for step in range(max_steps):
        if step % 100 == 0:
            inverse, widths = _inverse(x, weights)  # recomputed: rounding errors of the steps accumulate
        most, up = widths.masked_fill(blocked, -math.inf).max(-1, keepdim=True)
        if step % 8 == 0 and bool((most <= enough).all()):
            break
        least, down = widths.masked_fill(weights <= 0, math.inf).min(-1, keepdim=True)
        away = (rank - least) > (most - rank)
        at, g = torch.where(away, down, up), torch.where(away, least, most)
        best = ((g / rank - 1) / (g - 1)).clamp(max=0.99)  # at rank 1 it would be 1 and make V singular
        w = weights.gather(-1, at)
        low = -w / (1 - w).clamp(min=1e-12)  # removes all of the arm's weight
        best = torch.where(away & ((g <= 1) | (best < low)), low, best).masked_fill(most <= enough, 0.0)
        inverse, widths, weights = _move_weight(x, inverse, widths, weights, at, best, g)
    inverse, widths = _inverse(x, weights)
    most = widths.masked_fill(~allowed, -math.inf).amax(-1)
    if not bool((most <= rank.squeeze(-1) * (1 + tolerance)).all()):
        raise NumericalError(
            f"g_optimal_design: not within {tolerance:g} of the optimum after {max_steps} steps; "
            "increase max_steps or tolerance"
        )
    return weights.to(arms.dtype), most.to(arms.dtype)


def _in_span(x: Tensor) -> Tensor:  # (*B, K, d) -> (*B, K, min(K, d))
    """Return the arms in coordinates of their span; coordinates beyond its dimension are exactly 0."""
    _, singular, directions = torch.linalg.svd(x, full_matrices=False)
    keep = singular > 1e-9 * singular.amax(-1, keepdim=True)
    inside: Tensor = x @ (directions * keep.unsqueeze(-1)).mT
    return inside


def _inverse(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:  # (*B, K, d), (*B, K) -> (*B, d, d), (*B, K)
    """Return W^-1 and the norm x_i . W^-1 x_i of every arm."""
    V = x.mT @ (weights.unsqueeze(-1) * x)
    empty = (x.square().sum(-2) == 0).double()
    inverse = torch.linalg.inv(V + torch.diag_embed(empty))  # no arm has a component outside the span
    return inverse, ((x @ inverse) * x).sum(-1)


def _move_weight(
    x: Tensor,  # (*B, K, d)
    inverse: Tensor,  # (*B, d, d)
    widths: Tensor,  # (*B, K)
    weights: Tensor,  # (*B, K)
    at: Tensor,  # (*B, 1)
    step: Tensor,  # (*B, 1)
    g: Tensor,  # (*B, 1)
) -> tuple[Tensor, Tensor, Tensor]:
    """Update W to (1 - step) W + step x x^T for the arm ``at``, whose norm is g, in O(K d)."""
    chosen = x.gather(-2, at.unsqueeze(-1).expand(*at.shape, x.shape[-1])).squeeze(-2)
    u = (inverse @ chosen.unsqueeze(-1)).squeeze(-1)
    z = (x @ u.unsqueeze(-1)).squeeze(-1)
    c = step / (1 - step)
    shrink = c / (1 + c * g)
    widths = (widths - shrink * z.square()) / (1 - step)
    inverse = (inverse - shrink.unsqueeze(-1) * u.unsqueeze(-1) * u.unsqueeze(-2)) / (1 - step).unsqueeze(-1)
    moved = weights * (1 - step)
    moved = moved.scatter_add(-1, at, step)
    return inverse, widths, moved.clamp(min=0) * (moved > 1e-12)
