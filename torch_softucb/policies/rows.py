"""Ridge statistics of one bandit packed into one row of float64 numbers.

One tensor holds the rows of all bandits, so an update is written by a single operation. Anything that fails inside an
update fails before that write, and statistics are never half updated.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.errors import NumericalError
from torch_softucb.functional.ridge import _ridge_root, _ridge_root_update

CACHE_ERROR_TOLERANCE = 1e-6  # an intact cache is off by at most 1e-8 at cond(V) 5e8; see tests/policies/test_numerics.py
LONG_SQ = 1e8  # squared length of features above which each update checks what it computed
CACHE_ERROR_LIMIT = 1e-4  # at cond(V) of 1e11 and above, where V itself is not more accurate


class RidgeState(NamedTuple):
    """Statistics of a batch of bandits, all float64.

    Attributes:
        V: ``(*B, d, d)`` Gram matrix, alpha I + sum x x^T.
        root: ``(*B, d, d)`` cached factor of its inverse, root root^T = V^-1.
        b: ``(*B, d)`` sum x y.
        num_observations: ``(*B,)`` number of observations so far.
        gamma: ``(*B,)`` coldness carried to the next round; used by ``coldness="lagged"`` only.
        memory: ``(*B, M)`` additional statistics of the policy; M is 0 for most policies.
    """

    V: Tensor  # (*B, d, d)
    root: Tensor  # (*B, d, d)
    b: Tensor  # (*B, d)
    num_observations: Tensor  # (*B,)
    gamma: Tensor  # (*B,)
    memory: Tensor  # (*B, M)


class RowLayout:
    """Positions of a bandit's statistics within its row: V, root, b, memory, number of observations, gamma.

    Args:
        dim: number of features d.
        memory_size: M, number of values that the policy keeps in addition.

    Attributes:
        V, root, b, memory: slices of a row.
        num_observations, gamma: positions of single numbers.
        size: length of a row.

    Example:
        >>> layout = RowLayout(2, 3)
        >>> layout.V, layout.b, layout.size
        (slice(0, 4, None), slice(8, 10, None), 15)
    """

    def __init__(self, dim: int, memory_size: int) -> None:
        square = dim * dim
        self.dim, self.memory_size = dim, memory_size
        self.V, self.root = slice(0, square), slice(square, 2 * square)
        self.b = slice(2 * square, 2 * square + dim)
        self.memory = slice(self.b.stop, self.b.stop + memory_size)
        self.num_observations = self.memory.stop
        self.gamma = self.num_observations + 1
        self.size = self.gamma + 1

    def fresh(self, batch_shape: tuple[int, ...], ridge_alpha: float, memory: Tensor) -> Tensor:  # (M,) -> (*B, size)
        """Return the rows of bandits without observations: V = alpha I."""
        eye = torch.eye(self.dim, dtype=torch.float64, device=memory.device).flatten()
        b, numbers = (torch.zeros(size, dtype=torch.float64, device=memory.device) for size in (self.dim, 2))
        row = torch.cat((eye * ridge_alpha, eye / math.sqrt(ridge_alpha), b, memory.to(b), numbers))
        return row.expand(*batch_shape, -1).clone()

    def unpack(self, rows: Tensor) -> RidgeState:  # (*B, size)
        """Return views of the parts of each row."""
        shape = (*rows.shape[:-1], self.dim, self.dim)
        sizes = [self.dim * self.dim, self.dim * self.dim, self.dim, self.memory_size, 2]
        V, root, b, memory, _ = torch.split_with_sizes(rows, sizes, dim=-1)
        num_observations, gamma = rows.select(-1, self.num_observations), rows.select(-1, self.gamma)
        return RidgeState(V.view(shape), root.view(shape), b, num_observations, gamma, memory)


def pack(state: RidgeState) -> Tensor:  # (*B, size)
    """Pack statistics into rows, in the order of :class:`RowLayout`."""
    numbers = torch.stack((state.num_observations, state.gamma), dim=-1)
    return torch.cat((state.V.flatten(-2), state.root.flatten(-2), state.b, state.memory, numbers), dim=-1)


def observe_one(
    old: RidgeState,
    x: Tensor,  # (*B, d)
    reward: Tensor,  # (*B,)
    gamma: Tensor,  # (*B,)
    refresh_every: int,
) -> RidgeState:
    """Add one observation per row in O(d^2); recompute the cache of the rows that are due by ``refresh_every``."""
    check_has_values(old.V)
    V = old.V + x.unsqueeze(-1) * x.unsqueeze(-2)
    num_observations = old.num_observations + 1
    root = _ridge_root_update(old.root, x)
    due = num_observations.remainder(refresh_every) == 0
    if bool(due.any()):
        check_cache(RidgeState(V[due], root[due], old.b[due], num_observations[due], gamma[due], old.memory[due]))
        root = root.index_put((due,), _ridge_root(V[due])) if due.dim() else _ridge_root(V)
    check_lengths(V, root, x.square().sum(-1))
    return RidgeState(V, root, old.b + x * reward.unsqueeze(-1), num_observations, gamma, old.memory)


def observe_many(
    old: RidgeState,
    dV: Tensor,  # (*B, d, d) sum x x^T
    db: Tensor,  # (*B, d) sum x y
    dn: Tensor,  # (*B,)
    gamma: Tensor,  # (*B,)
) -> RidgeState:
    """Add several observations per row, given as sums; check the old cache, then recompute it."""
    check_has_values(old.V)
    check_cache(old)
    V = old.V + dV
    root = _ridge_root(V)
    check_lengths(V, root, dV.diagonal(dim1=-2, dim2=-1).sum(-1))
    return RidgeState(V, root, old.b + db, old.num_observations + dn, gamma, old.memory)


def check_has_values(V: Tensor) -> None:
    """Raise if the statistics are on ``meta``, where a policy can decide on shapes but cannot learn."""
    if V.is_meta:
        raise ValueError("update: statistics must have values, got a policy on meta; use policy.to_empty(device=), reset()")


def check_lengths(V: Tensor, root: Tensor, length_sq: Tensor) -> None:  # (*B, d, d), (*B, d, d), (*B,)
    """Raise NumericalError, naming the row, if features are so long that float64 cannot hold V and its inverse together."""
    if not length_sq.numel() or length_sq.amax().item() <= LONG_SQ:
        return
    long = (length_sq > LONG_SQ) & length_sq.isfinite()  # products that overflow are reported as such
    if not bool(long.any()):
        return
    off = long & ~(F.ridge_cache_error(V, root) <= CACHE_ERROR_LIMIT)
    if bool(off.any()):
        row = tuple(off.nonzero()[0].tolist())
        at = f" in row {row}" if row else ""
        raise NumericalError(
            f"update: features of length {math.sqrt(float(length_sq[off].max())):.1e}{at} are too long next to the ridge "
            "for float64, and the widths would be wrong; normalise the features. Nothing was changed"
        )


def forget(old: RidgeState, discount: float, ridge_alpha: float | Tensor) -> RidgeState:  # number or (*B,)
    """Discount the statistics: V <- rho V + (1 - rho) alpha I and b <- rho b; check the old cache, then recompute it.

    Without the second term of V, directions that are no longer observed would lose their ridge until V is singular.
    """
    check_cache(old)  # a disturbed cache is reported, not rebuilt
    eye = torch.eye(old.b.shape[-1], dtype=old.V.dtype, device=old.V.device)
    ridge = ridge_alpha[..., None, None] * eye if isinstance(ridge_alpha, Tensor) else ridge_alpha * eye
    V = discount * old.V + (1 - discount) * ridge
    return old._replace(V=V, root=_ridge_root(V), b=discount * old.b)


def cache_errors(state: RidgeState) -> tuple[Tensor, Tensor]:  # (*B,), (*B,)
    """Return the error of the cached factor of each row, and the error that is allowed at the condition of its V."""
    error = F.ridge_cache_error(state.V, state.root)
    cond = state.V.diagonal(dim1=-2, dim2=-1).sum(-1) * state.root.square().sum((-2, -1))  # trace V trace V^-1 >= cond(V)
    return error, (torch.finfo(cond.dtype).eps * cond).clamp(CACHE_ERROR_TOLERANCE, CACHE_ERROR_LIMIT)


def check_cache(state: RidgeState) -> None:
    """Raise NumericalError if the cached factor of any row has drifted too far from V."""
    if not state.V.numel() or F.ridge_cache_error(state.V, state.root).amax().item() <= CACHE_ERROR_TOLERANCE:
        return  # allowed whatever the condition of V, which is computed only where it matters
    error, allowed = cache_errors(state)
    off = ~(error <= allowed)  # NaN counts as off
    if bool(off.any()):
        rounds = state.num_observations[off].flatten()[0]
        raise NumericalError(
            f"ridge cache: root is off by {float(error[off].max()):.1e} (allowed {float(allowed[off].max()):.0e}) in "
            f"{int(off.sum())} of {off.numel()} bandits, the first after {int(rounds)} observations; policy.refresh() "
            "recomputes it from V; if that does not help, the features differ too much in scale: normalise them"
        )
