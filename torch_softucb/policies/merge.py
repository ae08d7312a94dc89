"""Pool the observations of replicas that started alike and then learned separately.

V, b and the number of observations are sums over observations, so what each replica has added to the common start adds up:
V = V_start + sum_r (V_r - V_start), likewise b and n. Nothing is counted twice if the next merge starts from the result.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_softucb.checks import check_finite, check_shape
from torch_softucb.functional.ridge import _ridge_root
from torch_softucb.policies.auto import AutoSoftUCB
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.rows import RowLayout, pack

_SLACK = 1e-10  # of trace(V): far above the rounding of V_r - V_start, far below one observation


def merged_rows(
    start: Tensor,  # (*B, size)
    replicas: Sequence[Tensor],  # each (*B, size)
    layout: RowLayout,
    *,
    where: str = "merged_rows",
) -> Tensor:  # (*B, size)
    """Return the statistics of bandits that have seen what all replicas have seen since the common start.

    The result is the same bit for bit in whatever order the replicas are given. The number of observations is exact.

    Args:
        start: rows that every replica started from.
        replicas: rows of each replica now.
        layout: positions within a row.
        where: function that error messages begin with.

    Raises:
        ValueError: if a replica has less than it started with, because it was reset or has discounted its statistics.

    Example:
        >>> from torch_softucb import LinUCB
        >>> one, two = LinUCB(2), LinUCB(2)
        >>> start = one.statistics.clone()
        >>> one.update(torch.tensor([1.0, 0.0]), torch.tensor(1.0))
        >>> two.update(torch.tensor([0.0, 2.0]), torch.tensor(3.0))
        >>> merged = one.layout.unpack(merged_rows(start, [one.statistics, two.statistics], one.layout))
        >>> merged.V.diagonal(), merged.b, merged.num_observations
        (tensor([2., 5.], dtype=torch.float64), tensor([1., 6.], dtype=torch.float64), tensor(2., dtype=torch.float64))
    """
    for number, rows in enumerate(replicas):
        check_shape(where, f"statistics of replica {number}", rows.shape, rows.shape == start.shape, f"{tuple(start.shape)}")
        check_finite(where, f"statistics of replica {number}", rows)
        _check_gained(where, number, layout, start, rows)
    gained = torch.stack([rows - start for rows in replicas]).sort(0).values  # sorted: the order of replicas is forgotten
    total = start.clone()
    for part in gained:
        total += part
    old, new = layout.unpack(start), layout.unpack(total)
    return pack(new._replace(root=_ridge_root(new.V), gamma=old.gamma))


def _check_gained(where: str, number: int, layout: RowLayout, start: Tensor, rows: Tensor) -> None:
    """Raise unless the replica has only added observations to the start."""
    old, new = layout.unpack(start), layout.unpack(rows)
    slack = _SLACK * (old.V + new.V).diagonal(dim1=-2, dim2=-1).sum(-1)
    eye = torch.eye(layout.dim, dtype=start.dtype, device=start.device)
    info = torch.linalg.cholesky_ex(new.V - old.V + slack[..., None, None] * eye).info
    lost = (info != 0) | (new.num_observations < old.num_observations)
    if bool(lost.any()):
        raise ValueError(
            f"{where}: every replica must have added observations to the common start, but replica {number} has lost some "
            f"in {int(lost.sum())} of {lost.numel()} bandits; merge before reset(), load_state_dict() and refit(), and "
            "do not use discount; nothing was changed"
        )


def check_mergeable(where: str, policy: BanditPolicy) -> None:
    """Raise if a policy keeps something that is not a sum over observations."""
    if isinstance(policy, AutoSoftUCB):
        raise ValueError(
            f"{where}: only sums over observations can be merged, but {type(policy).__name__} also keeps the scales that "
            "each replica has estimated; use a policy with a fixed ridge weight, such as SoftUCBPolicy"
        )
    if policy.remembers or policy.carries_gamma:
        name = type(policy).__name__ + ("" if policy.remembers else " with coldness='lagged'")
        raise ValueError(
            f"{where}: only sums over observations can be merged, but {name} keeps a memory of past rounds; use "
            "SoftUCBPolicy ('current' or 'smooth'), LinUCB, LinTS, EpsilonGreedy or SoftElim"
        )
