"""Offset, noise and prior scale of bandits, kept in the memory of their rows and re-estimated as rewards arrive.

The rows of a batch form groups of consecutive rows that share their scales: one row each, the arms of one bandit, or all
users of one product. Sums of rewards are relative to an anchor, the first reward of the group, so that an offset which is
large compared with the spread of the rewards costs no digits. The scales are estimated after observations 1, 2, 3, ...
and then whenever the number of observations has grown by 30%; in between they stay as they are.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.functional.ridge import _ridge_root, _ridge_solve
from torch_softucb.functional.scales import RegressionSums, _evidence_scales
from torch_softucb.policies.rows import RidgeState, RowLayout, pack
from torch_softucb.policies.updates import MemorySums

GROWTH = 0.3  # the scales are estimated again when a group has this share more observations
_MOST_ROWS = 4096  # rows of a group from which the scales are estimated: those with the most observations

SUMMARY = ("num_observations", "num_rows", "explained", "log_rho", "log_det", "shrinkage", "kept")
"""Numbers about the data of a group when its scales were estimated: observations (discounted), of an average bandit; rows
with a separate theta per bandit, above 1 only for :class:`~torch_softucb.DisjointArms`; share of
the variance of the rewards that the features explain; log10 of rho over the mean squared length of the features;
log det(V / rho) / d; squared width over its first value; discounted observations over all observations."""


class ScaleMemory(NamedTuple):
    """Memory of each row, all float64; the scales are those of its group.

    Attributes:
        anchor: ``(*B,)`` reward that the sums and the offset are relative to.
        weight: ``(*B,)`` number of observations, discounted.
        sum_y: ``(*B,)`` sum of the rewards.
        energy: ``(*B,)`` sum of their squares.
        offset: ``(*B,)`` offset of the model, relative to the anchor.
        noise_std: ``(*B,)`` standard deviation of the noise; 0 while it is not known.
        rho: ``(*B,)`` ridge weight, the noise variance over the prior variance of theta.
        total: ``(*B,)`` observations of the group, kept in its first row.
        due: ``(*B,)`` total at which the scales are estimated again, kept in the first row.
        offset_variance: ``(*B,)`` variance of the offset over that of the noise.
        summary: ``(*B, 7)`` see :data:`SUMMARY`.
        sum_x: ``(*B, d)`` sum of the features.
        offset_direction: ``(*B, d)`` V^-1 sum_x when the scales were estimated.
    """

    anchor: Tensor  # (*B,)
    weight: Tensor  # (*B,)
    sum_y: Tensor  # (*B,)
    energy: Tensor  # (*B,)
    offset: Tensor  # (*B,)
    noise_std: Tensor  # (*B,)
    rho: Tensor  # (*B,)
    total: Tensor  # (*B,)
    due: Tensor  # (*B,)
    offset_variance: Tensor  # (*B,)
    summary: Tensor  # (*B, 7)
    sum_x: Tensor  # (*B, d)
    offset_direction: Tensor  # (*B, d)

    @property
    def known(self) -> Tensor:  # (*B,) bool
        """Whether the noise is known."""
        return self.noise_std > 0


SUMMARY_START = ScaleMemory._fields.index("summary")  # the memory starts with as many single numbers
SUM_X = SUMMARY_START + len(SUMMARY)  # where the sum of the features starts; the offset's direction follows
WEIGHT, OFFSET, NOISE_STD, RHO, TOTAL, DUE, OFFSET_VARIANCE = (
    ScaleMemory._fields.index(name) for name in ("weight", "offset", "noise_std", "rho", "total", "due", "offset_variance")
)


def fresh_memory(dim: int) -> Tensor:  # (M,)
    """Return the memory of a bandit without observations."""
    memory = torch.zeros(SUM_X + 2 * dim, dtype=torch.float64)
    memory[RHO] = memory[DUE] = 1.0
    for name in ("num_rows", "shrinkage", "kept"):
        memory[SUMMARY_START + SUMMARY.index(name)] = 1.0
    return memory


def _end_of_sum(memory: Tensor) -> int:  # (*B, M)
    return (SUM_X + memory.shape[-1]) // 2


def unpack_memory(memory: Tensor) -> ScaleMemory:  # (*B, M)
    """Return views of the parts of each memory."""
    return ScaleMemory._make(
        (
            *memory[..., :SUMMARY_START].unbind(-1),
            memory[..., SUMMARY_START:SUM_X],
            memory[..., SUM_X : _end_of_sum(memory)],
            memory[..., _end_of_sum(memory) :],
        )
    )


def pack_memory(parts: ScaleMemory) -> Tensor:  # (*B, M)
    """Return the memory that has these parts."""
    single = torch.stack(parts[:SUMMARY_START], dim=-1)
    return torch.cat((single, parts.summary, parts.sum_x, parts.offset_direction), dim=-1)


def impossible(memory: Tensor) -> Tensor:  # (n, M) -> (n,)
    """Return which memories no sequence of updates leads to."""
    m = unpack_memory(memory)
    negative = (m.weight < 0) | (m.energy < 0) | (m.noise_std < 0) | (m.total < 0) | (m.due < 0)
    negative = negative | (m.offset_variance < 0)
    return negative | ~(m.rho > 0) | ~(m.summary[..., 1] >= 1)


def _increments(x: Tensor, reward: Tensor) -> Tensor:  # (*B, n, d), (*B, n) -> (*B, M)
    new = reward.new_zeros(*reward.shape[:-1], SUM_X + 2 * x.shape[-1])
    new[..., WEIGHT] = reward.shape[-1]
    new[..., WEIGHT + 1] = reward.sum(-1)
    new[..., WEIGHT + 2] = reward.square().sum(-1)
    new[..., SUM_X : _end_of_sum(new)] = x.sum(-2)
    return new


def _forget(memory: Tensor, discount: float) -> Tensor:  # (*B, M)
    new = memory.clone()
    new[..., WEIGHT : WEIGHT + 3] *= discount
    new[..., SUM_X : _end_of_sum(new)] *= discount
    return new


SCALE_SUMS = MemorySums(_increments, _forget, ridge=lambda memory: memory[..., RHO])


def next_due(count: Tensor, weight: Tensor) -> Tensor:  # (*G,), (*G,) -> (*G,)
    """Return the number of observations at which the scales are estimated next."""
    return count + (GROWTH * weight).floor().clamp(min=1)


def estimated(state: RidgeState, count: Tensor, *, rows_are_arms: bool = False) -> RidgeState:  # (*G, S, ...), (*G,)
    """Estimate the scales of groups of S rows; V and its root are rebuilt with the new ridge weight.

    Args:
        state: statistics of all rows of the groups.
        count: number of observations of each group.
        rows_are_arms: whether the rows of a group are arms of one bandit. Otherwise they are separate bandits, such as
            users, and the summary describes an average one of them.
    """
    old = unpack_memory(state.memory)
    gram = state.V - torch.diag_embed(old.rho.unsqueeze(-1).expand_as(state.b))
    sums = RegressionSums(old.weight, old.sum_x, old.sum_y, gram, state.b, old.energy)
    found = _evidence_scales(RegressionSums(*most_observed(old.weight, sums)), pooled=True)
    rows, weight = old.weight.shape[-1], old.weight.sum(-1)
    shape = (found.explained, found.log_rho, found.log_det, found.shrinkage)
    size = (weight, torch.full_like(weight, rows)) if rows_are_arms else (weight / rows, torch.ones_like(weight))
    summary = torch.stack((*size, *shape, weight / count), dim=-1)
    each = old.weight.shape
    rho = found.rho.unsqueeze(-1).expand(each)
    V = gram + torch.diag_embed(rho.unsqueeze(-1).expand_as(state.b))
    root = _ridge_root(V)
    memory = old._replace(
        offset=found.offset.unsqueeze(-1).expand(each),
        noise_std=found.noise_std.nan_to_num(nan=0.0).unsqueeze(-1).expand(each),
        rho=rho,
        total=in_first_row(count, rows),
        due=in_first_row(next_due(count, weight), rows),
        offset_variance=found.offset_variance.unsqueeze(-1).expand(each),
        summary=summary.unsqueeze(-2).expand(*each, -1),
        offset_direction=_ridge_solve(root, old.sum_x),
    )
    return state._replace(V=V, root=root, memory=pack_memory(memory))


def most_observed(weight: Tensor, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:  # (*G, S), each (*G, S, ...)
    """Return the rows of each group with the most observations, if a group has too many rows to use them all."""
    if weight.shape[-1] <= _MOST_ROWS:
        return values
    top = weight.topk(_MOST_ROWS, dim=-1).indices
    return tuple(_take(value, top) for value in values)


def _take(value: Tensor, rows: Tensor) -> Tensor:  # (*G, S, ...), (*G, n) -> (*G, n, ...)
    index = rows.view(*rows.shape, *[1] * (value.dim() - rows.dim()))
    return value.gather(rows.dim() - 1, index.expand(*rows.shape, *value.shape[rows.dim() :]))


def in_first_row(value: Tensor, rows: int) -> Tensor:  # (*G,) -> (*G, S)
    """Return a number per group as one per row, 0 in all rows but the first."""
    return torch.nn.functional.pad(value.unsqueeze(-1), (0, rows - 1))


class Observed(NamedTuple):
    """Observations as a list: the row that each belongs to, its features and its reward."""

    row: Tensor  # (N,) int64
    x: Tensor  # (N, d)
    reward: Tensor  # (N,)


class Groups(NamedTuple):
    """Groups that get observations, with the anchor and the ridge weight that these are added with.

    Attributes:
        id: ``(g,)`` numbers of the groups, ascending.
        member: ``(N,)`` position in ``id`` of each observation's group.
        first: ``(g,)`` position of each group's first observation.
        size: number of rows per group.
        rows_are_arms: whether they are arms of one bandit; see :func:`estimated`.
    """

    id: Tensor  # (g,)
    member: Tensor  # (N,)
    first: Tensor  # (g,)
    size: int
    rows_are_arms: bool = False


def group(row: Tensor, size: int, *, rows_are_arms: bool = False) -> Groups:  # (N,)
    """Sort observations by group."""
    id, member = torch.unique(row // size, return_inverse=True)
    positions = torch.arange(len(row), device=row.device)
    first = torch.full_like(id, len(row)).scatter_reduce(0, member, positions, "amin")
    return Groups(id, member, first, size, rows_are_arms)


def anchored(rows: Tensor, layout: RowLayout, groups: Groups, observed: Observed) -> tuple[Tensor, Tensor]:  # (R, size)
    """Give groups without observations an anchor and a ridge weight in the unit of their features.

    Args:
        rows: statistics of all rows.
        layout: positions within a row.
        groups: groups that get observations.
        observed: the observations.

    Returns:
        The statistics with which the update begins, and the rewards relative to the anchors, ``(N,)``.
    """
    head = unpack_memory(rows[groups.id * groups.size][:, layout.memory])
    is_new = head.total == 0
    anchor = torch.where(is_new, observed.reward[groups.first], head.anchor)
    if bool(is_new.any()):
        length = observed.x[groups.first].square().sum(-1)
        rho = torch.where(length > 0, length, torch.ones_like(length))[is_new]
        ids = (groups.id[is_new].unsqueeze(-1) * groups.size + torch.arange(groups.size, device=rho.device)).flatten()
        memory = fresh_memory(layout.dim).to(rows.device).repeat(len(ids), 1)
        memory[:, RHO] = rho.repeat_interleave(groups.size)
        memory[:, 0] = anchor[is_new].repeat_interleave(groups.size)
        state = layout.unpack(rows[ids])
        ridge = memory[:, RHO, None].expand_as(state.b)
        state = state._replace(V=torch.diag_embed(ridge), root=torch.diag_embed(ridge.rsqrt()), memory=memory)
        rows = rows.index_copy(0, ids, pack(state))
    return rows, observed.reward - anchor[groups.member]


def settled(
    rows: Tensor,  # (R, size)
    written: Tensor,  # (n,)
    new: Tensor,  # (n, size)
    layout: RowLayout,
    groups: Groups,
    estimate: Callable[..., RidgeState] = estimated,
) -> tuple[Tensor, Tensor]:  # (m,), (m, size)
    """Count the observations of each group and estimate the scales of the groups that are due.

    Args:
        rows: statistics of all rows, as the update found them.
        written: rows that got observations.
        new: their statistics after the update.
        layout: positions within a row.
        groups: groups that got observations.
        estimate: what is done with a group that is due; the arguments are those of :func:`estimated`.

    Returns:
        All rows that change, ascending, and their statistics.
    """
    heads, each = groups.id * groups.size, torch.arange(groups.size, device=rows.device)
    memory = unpack_memory(rows[heads][:, layout.memory])
    count = memory.total + torch.bincount(groups.member, minlength=len(heads))
    is_due = count >= memory.due
    due = heads[is_due].unsqueeze(-1) + each  # (g, S)
    ids = torch.unique(torch.cat((written, heads, due.flatten())))
    values = rows[ids]
    values[torch.searchsorted(ids, written)] = new
    values[torch.searchsorted(ids, heads), layout.memory.start + TOTAL] = count
    if bool(is_due.any()):
        at = torch.searchsorted(ids, due)
        state = estimate(layout.unpack(values[at]), count[is_due], rows_are_arms=groups.rows_are_arms)
        values[at.flatten()] = pack(state).flatten(0, 1)
    return ids, values
