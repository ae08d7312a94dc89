"""Summary of the data of bandits whose scales are those of a prior.

Offset, noise and prior of theta are known, so nothing is estimated. In whitened coordinates the ridge weight is 1, the
offset 0, and V = I + sum x x^T. What is refreshed, at the same numbers of observations as without a prior, is the summary
that beta may depend on.
"""

import math

import numpy as np
import torch
from torch import Tensor

from torch_softucb.functional.scales import NOISE_FLOOR
from torch_softucb.policies.fast_path import Array
from torch_softucb.policies.rows import RidgeState, RowLayout
from torch_softucb.policies.scales import (
    DUE,
    GROWTH,
    SUM_X,
    SUMMARY_START,
    TOTAL,
    WEIGHT,
    in_first_row,
    most_observed,
    next_due,
    pack_memory,
    unpack_memory,
)


def summarised(state: RidgeState, count: Tensor, *, rows_are_arms: bool = False) -> RidgeState:  # (*G, S, ...), (*G,)
    """Refresh the summary of groups of S rows; twin of :func:`torch_softucb.policies.scales.estimated`.

    Args:
        state: statistics of all rows of the groups, in whitened coordinates.
        count: number of observations of each group.
        rows_are_arms: as in :func:`~torch_softucb.policies.scales.estimated`.
    """
    old = unpack_memory(state.memory)
    shape = learned_shape(*most_observed(old.weight, (old.weight, old.energy, state.V, state.root, state.b)))
    rows, weight = old.weight.shape[-1], old.weight.sum(-1)
    size = (weight, torch.full_like(weight, rows)) if rows_are_arms else (weight / rows, torch.ones_like(weight))
    summary = torch.stack((*size, *shape, weight / count), dim=-1)
    memory = old._replace(
        total=in_first_row(count, rows),
        due=in_first_row(next_due(count, weight), rows),
        summary=summary.unsqueeze(-2).expand(*old.weight.shape, -1),
    )
    return state._replace(memory=pack_memory(memory))


def learned_shape(
    weight: Tensor,  # (*G, S)
    energy: Tensor,  # (*G, S)
    V: Tensor,  # (*G, S, d, d)
    root: Tensor,  # (*G, S, d, d)
    b: Tensor,  # (*G, S, d)
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # (*G,) each
    """Return explained, log_rho, log_det and shrinkage, see :data:`~torch_softucb.policies.scales.SUMMARY`.

    The share of the rewards' variance that the features explain is b . V^-1 b / sum y^2, with y relative to what the prior
    predicts; ``log_rho`` is minus log10 of the mean squared length of the whitened features.

    Args:
        weight: number of observations of each row, discounted.
        energy: sum of y^2.
        V: I + sum x x^T.
        root: factor of its inverse.
        b: sum of x y.
    """
    d, tiny = b.shape[-1], torch.finfo(b.dtype).tiny
    learned = (root.mT @ b.unsqueeze(-1)).square().sum((-3, -2, -1))
    length = (V.diagonal(dim1=-2, dim2=-1) - 1).sum((-2, -1)) / weight.sum(-1).clamp(min=tiny)  # mean |x|^2
    return (
        (learned / energy.sum(-1).clamp(min=tiny)).clamp(max=1 - NOISE_FLOOR),
        torch.where(length > 0, -length.clamp(min=tiny).log10(), torch.zeros_like(length)),
        torch.linalg.slogdet(V).logabsdet.mean(-1) / d,
        root.square().sum((-2, -1)).mean(-1) / d,
    )


def summarise_one(row: Array, layout: RowLayout) -> None:  # (size,), written in place
    """Refresh the summary of one bandit; twin of :func:`summarised`."""
    dim, memory = layout.dim, row[layout.memory]
    n, energy = float(memory[WEIGHT]), float(memory[WEIGHT + 2])
    V, root = row[layout.V].reshape(dim, dim), row[layout.root]
    half = row[layout.b] @ root.reshape(dim, dim)
    explained = min(float(half @ half) / energy, 1 - NOISE_FLOOR) if energy > 0 else 0.0
    length = float(np.trace(V) - dim) / n
    log_rho = -math.log10(length) if length > 0 else 0.0
    shape = explained, log_rho, np.linalg.slogdet(V)[1] / dim, float(root @ root) / dim
    memory[DUE] = memory[TOTAL] + max(1, math.floor(GROWTH * n))
    memory[SUMMARY_START:SUM_X] = (n, 1.0, *shape, n / memory[TOTAL])
