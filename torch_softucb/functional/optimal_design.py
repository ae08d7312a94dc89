"""G-optimal design: how to share pulls among arms so that no arm's mean stays more uncertain than need be."""

import math

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_axis, check_mask
from torch_softucb.errors import NumericalError


def g_optimal_design(
    arms: Tensor,  # (*B, K, d)
    *,
    mask: Tensor | None = None,  # (*B, K) or (K,), True = may be used
    tolerance: float = 1e-3,
    max_steps: int = 20_000,
) -> tuple[Tensor, Tensor]:  # (*B, K), (*B,)
    """Weights p of the allowed arms that make max_i x_i . W^-1 x_i small, W = sum_k p_k x_k x_k^T, and that maximum.

    Kiefer and Wolfowitz: the least possible maximum is the dimension r of the arms' span; the answer is within
    r (1 + tolerance). Frank-Wolfe with away steps (Wolfe and Atwood): each step moves weight to the arm of the largest
    norm, or away from the used arm of the smallest, as far as is best. Computed in float64.

    J. Kiefer, J. Wolfowitz: The equivalence of two extremum problems, 1960; T. Lattimore, C. Szepesvari: Bandit Algorithms,
    2020, ch. 21.

    Example:
        >>> weights, most = g_optimal_design(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
        >>> weights.round(decimals=3), round(most.item(), 3)
        (tensor([0.5000, 0.5000, 0.0000]), 2.0)
    """
    check_arm_axis("g_optimal_design", "arms", arms[..., 0])
    check_mask("g_optimal_design", mask, arms.shape[:-1])
    allowed = torch.ones(arms.shape[:-1], dtype=torch.bool, device=arms.device)
    if mask is not None:
        allowed = mask.expand(arms.shape[:-1])
    x = _in_span(arms.double() * allowed.unsqueeze(-1))
    rank = (x.square().sum(-2) > 0).sum(-1, keepdim=True).double()  # (*B, 1)
    weights = allowed.double() / allowed.sum(-1, keepdim=True)
    blocked, enough = ~allowed, rank * (1 + 0.5 * tolerance)
    for step in range(max_steps):
        if step % 100 == 0:
            inverse, widths = _inverse(x, weights)  # steps lose digits
        most, up = widths.masked_fill(blocked, -math.inf).max(-1, keepdim=True)
        if step % 8 == 0 and bool((most <= enough).all()):
            break
        least, down = widths.masked_fill(weights <= 0, math.inf).min(-1, keepdim=True)
        away = (rank - least) > (most - rank)
        at, g = torch.where(away, down, up), torch.where(away, least, most)
        best = ((g / rank - 1) / (g - 1)).clamp(max=0.99)  # with rank 1 it is 1, and V would have no inverse on the way
        w = weights.gather(-1, at)
        low = -w / (1 - w).clamp(min=1e-12)  # takes all of an arm's weight away
        best = torch.where(away & ((g <= 1) | (best < low)), low, best).masked_fill(most <= enough, 0.0)
        inverse, widths, weights = _move(x, inverse, widths, weights, at, best, g)
    inverse, widths = _inverse(x, weights)
    most = widths.masked_fill(~allowed, -math.inf).amax(-1)
    if not bool((most <= rank.squeeze(-1) * (1 + tolerance)).all()):
        raise NumericalError(f"g_optimal_design: not within {tolerance:g} of the optimum after {max_steps} steps")
    return weights.to(arms.dtype), most.to(arms.dtype)


def _in_span(x: Tensor) -> Tensor:
    """The same arms in coordinates of their span: later coordinates are exactly 0 where they span less than all."""
    _, singular, directions = torch.linalg.svd(x, full_matrices=False)
    keep = singular > 1e-9 * singular.amax(-1, keepdim=True)
    inside: Tensor = x @ (directions * keep.unsqueeze(-1)).mT
    return inside


def _inverse(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    V = x.mT @ (weights.unsqueeze(-1) * x)
    empty = (x.square().sum(-2) == 0).double()
    inverse = torch.linalg.inv(V + torch.diag_embed(empty))  # coordinates outside the span meet no arm
    return inverse, ((x @ inverse) * x).sum(-1)


def _move(
    x: Tensor, inverse: Tensor, widths: Tensor, weights: Tensor, at: Tensor, step: Tensor, g: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """V <- (1 - step) V + step x x^T for the arm ``at``, whose norm is g: everything in O(K d)."""
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
