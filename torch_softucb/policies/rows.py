"""A bandit's ridge statistics as one row of numbers, so that an update is written by a single operation.

Row: V (d*d), root (d*d), b (d), a policy's own memory (any size), seen (1), gamma (1). One tensor holds all bandits' rows:
whatever fails inside an update fails before that one write, and nothing is ever half updated.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.errors import NumericalError
from torch_softucb.functional.ridge import _ridge_root, _ridge_root_update

CACHE_ERROR_TOLERANCE = 1e-6  # a healthy cache is 1e-8 or better off at cond(V) 5e8; see tests/policies/test_numerics.py
CACHE_ERROR_LIMIT = 1e-4  # where V itself has no more digits than that (cond(V) 1e11 and beyond)


class RidgeState(NamedTuple):
    """What a bandit remembers; all float64."""

    V: Tensor  # (*B, d, d) alpha I + sum x x^T
    root: Tensor  # (*B, d, d) cache: root root^T = V^-1
    b: Tensor  # (*B, d) sum x y
    num_observations: Tensor  # (*B,) observations so far
    gamma: Tensor  # (*B,) coldness carried to the next round, used by coldness="lagged" only
    memory: Tensor  # (*B, M) what else a policy keeps; M is 0 for most


def fresh_rows(
    batch_shape: tuple[int, ...], dim: int, ridge_alpha: float, device: torch.device, memory: Tensor | None = None
) -> Tensor:
    """Rows of bandits that have seen nothing: V = alpha I."""
    eye = torch.eye(dim, dtype=torch.float64, device=device).flatten()
    b, rest = (torch.zeros(size, dtype=torch.float64, device=device) for size in (dim, 2))
    own = b[:0] if memory is None else memory.to(b)
    row = torch.cat((eye * ridge_alpha, eye / math.sqrt(ridge_alpha), b, own, rest))
    return row.expand(*batch_shape, -1).clone()


def unpack(rows: Tensor, dim: int) -> RidgeState:  # (*B, row_size)
    """Views of the rows' parts."""
    square, shape = dim * dim, (*rows.shape[:-1], dim, dim)
    sizes = [square, square, dim, rows.shape[-1] - 2 * square - dim - 2, 2]
    V, root, b, memory, _ = torch.split_with_sizes(rows, sizes, dim=-1)
    return RidgeState(V.view(shape), root.view(shape), b, rows.select(-1, -2), rows.select(-1, -1), memory)


def pack(state: RidgeState) -> Tensor:
    numbers = torch.stack((state.num_observations, state.gamma), dim=-1)
    return torch.cat((state.V.flatten(-2), state.root.flatten(-2), state.b, state.memory, numbers), dim=-1)


def observe_one(
    old: RidgeState,
    x: Tensor,  # (*B, d)
    reward: Tensor,  # (*B,)
    gamma: Tensor,  # (*B,)
    refresh_every: int,
) -> RidgeState:
    """One observation for every row: O(d^2), and a fresh cache for the rows whose schedule says so."""
    V = old.V + x.unsqueeze(-1) * x.unsqueeze(-2)
    num_observations = old.num_observations + 1
    root = _ridge_root_update(old.root, x)
    due = num_observations.remainder(refresh_every) == 0
    if bool(due.any()):
        check_cache(RidgeState(V[due], root[due], old.b[due], num_observations[due], gamma[due], old.memory[due]))
        root = root.index_put((due,), _ridge_root(V[due])) if due.dim() else _ridge_root(V)
    return RidgeState(V, root, old.b + x * reward.unsqueeze(-1), num_observations, gamma, old.memory)


def observe_many(
    old: RidgeState,
    dV: Tensor,  # (*B, d, d) sum x x^T
    db: Tensor,  # (*B, d) sum x y
    dn: Tensor,  # (*B,)
    gamma: Tensor,  # (*B,)
) -> RidgeState:
    """Several observations for every row, as their sums: the cache is made anew, after a look at the old one."""
    check_cache(old)
    V = old.V + dV
    return RidgeState(V, _ridge_root(V), old.b + db, old.num_observations + dn, gamma, old.memory)


def forget(old: RidgeState, discount: float, ridge_alpha: float) -> RidgeState:
    """What is left after one step of forgetting: V <- rho V + (1 - rho) alpha I and b <- rho b, with a fresh cache.

    The second part of V is what plain discounting lacks: without it V loses its ridge where nothing is seen, until it cannot
    be inverted.
    """
    ridge = ridge_alpha * torch.eye(old.b.shape[-1], dtype=old.V.dtype, device=old.V.device)
    V = discount * old.V + (1 - discount) * ridge
    return old._replace(V=V, root=_ridge_root(V), b=discount * old.b)


def check_cache(state: RidgeState) -> None:
    error = F.ridge_cache_error(state.V, state.root)
    cond = state.V.diagonal(dim1=-2, dim2=-1).sum(-1) * state.root.square().sum((-2, -1))  # trace V trace V^-1 >= cond(V)
    allowed = (torch.finfo(cond.dtype).eps * cond).clamp(CACHE_ERROR_TOLERANCE, CACHE_ERROR_LIMIT)
    off = ~(error <= allowed)  # NaN counts as off
    if bool(off.any()):
        rounds = state.num_observations[off].flatten()[0]
        raise NumericalError(
            f"ridge cache: root is off by {float(error[off].max()):.1e} (allowed {float(allowed[off].max()):.0e}) in "
            f"{int(off.sum())} of {off.numel()} bandits, the first after {int(rounds)} observations; "
            "policy.refresh() makes it anew from V; if that does not help, features differ too much in scale: normalise them"
        )
