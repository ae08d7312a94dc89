"""Batched updates of ridge statistics: old rows and observations in, new rows out.

Nothing here writes to its arguments. The caller writes the new rows, so an update takes effect as a whole or not at all.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.policies.rows import RidgeState, RowLayout, forget, observe_many, observe_one, pack

_MAX_WAVES = 4  # up to this many observations per row, single updates cost less than a new factorisation


class Change(NamedTuple):
    """New statistics that have been computed and not yet written.

    Attributes:
        rows: ``(n,)`` ids of the rows that change; None if all do.
        old: ``(n, size)`` present values of these rows, or ``(*B, size)`` if all change.
        new: new values, of the same shape.
    """

    rows: Tensor | None  # (n,)
    old: Tensor  # (n, size) or (*B, size)
    new: Tensor  # (n, size) or (*B, size)


class MemorySums(NamedTuple):
    """How a memory that holds running sums takes in observations.

    Attributes:
        increments: function from features ``(*B, n, d)`` and rewards ``(*B, n)`` to what they add to a memory ``(*B, M)``.
        forget: function from a memory and a discount to the memory after one step of forgetting.
        ridge: function from a memory ``(*B, M)`` to the ridge weight of each row ``(*B,)``; None if it is ``ridge_alpha``.
    """

    increments: Callable[[Tensor, Tensor], Tensor]
    forget: Callable[[Tensor, float], Tensor]
    ridge: Callable[[Tensor], Tensor] | None = None


def _reward_sums(x: Tensor, reward: Tensor) -> Tensor:  # (*B, n, d), (*B, n) -> (*B, 2)
    """Return the number of rewards and the sum of their squares; 0 without rewards."""
    return F.reward_sums(reward) if reward.shape[-1] else reward.new_zeros(*reward.shape[:-1], 2)


REWARD_SUMS = MemorySums(_reward_sums, lambda memory, discount: discount * memory)  # number of observations and sum y^2


class UpdateRule(NamedTuple):
    """Policy-specific part of an update.

    Attributes:
        layout: positions within a row.
        ridge_alpha: ridge weight alpha.
        refresh_every: recompute a row's cache after this many single observations.
        sums: how the memory takes in observations, if it holds running sums; else None.
        next_gamma: function from the carried coldness ``(*B,)`` to the one after the update.
        remember: function of a memory ``(*B, M)`` and a keyword ``reward`` ``(*B,)`` that returns the new memory; None
            if the policy keeps no memory.
    """

    layout: RowLayout
    ridge_alpha: float
    refresh_every: int
    sums: MemorySums | None
    next_gamma: Callable[[Tensor], Tensor]
    remember: Callable[..., Tensor] | None

    def old_state(self, rows: Tensor, discount: float) -> RidgeState:  # (*B, size)
        """Return the statistics in these rows after one step of forgetting."""
        old = self.layout.unpack(rows)
        if discount == 1.0:
            return old
        if self.sums is None:
            return forget(old, discount, self.ridge_alpha)
        ridge = self.ridge_alpha if self.sums.ridge is None else self.sums.ridge(old.memory)
        return forget(old, discount, ridge)._replace(memory=self.sums.forget(old.memory, discount))


def updated_rows(
    statistics: Tensor,  # (*B, size)
    x: Tensor,  # (*B, d) or (*B, n, d), float64; with bandit (N, d) or (N, n, d)
    reward: Tensor,  # shape of x without the last dim, float64
    bandit: Tensor | None,  # (N,), repeated ids allowed
    rule: UpdateRule,
    discount: float,
) -> Change:
    """Return the rows that change, with their new values.

    Each row is discounted once, however many observations it gets.
    """
    if bandit is None:
        return Change(None, statistics, _observe(rule.old_state(statistics, discount), x, reward, rule))
    unique, group, counts = torch.unique(bandit, return_inverse=True, return_counts=True)
    if len(unique) == len(bandit):
        old = statistics[bandit]
        return Change(bandit, old, _observe(rule.old_state(old, discount), x, reward, rule))
    old = statistics[unique]
    observe = _observe_waves if x.dim() == 2 and int(counts.max()) <= _MAX_WAVES else _observe_groups
    return Change(unique, old, observe(rule.old_state(old, discount), group, x, reward, rule))


def _observe(old: RidgeState, x: Tensor, reward: Tensor, rule: UpdateRule) -> Tensor:
    """Add one or n observations to each row."""
    if rule.remember is not None:
        old = old._replace(memory=rule.remember(old.memory, reward=reward))
    if rule.sums is not None:
        single = x.dim() == old.b.dim()
        many = (x.unsqueeze(-2), reward.unsqueeze(-1)) if single else (x, reward)
        old = old._replace(memory=old.memory + rule.sums.increments(*many))
    gamma = rule.next_gamma(old.gamma)
    if x.dim() > old.b.dim() and x.shape[-2] == 1:
        x, reward = x.squeeze(-2), reward.squeeze(-1)
    if x.dim() == old.b.dim():
        return pack(observe_one(old, x, reward, gamma, rule.refresh_every))
    dn = torch.full_like(old.num_observations, x.shape[-2])
    return pack(observe_many(old, x.mT @ x, (x.mT @ reward.unsqueeze(-1)).squeeze(-1), dn, gamma))


def _observe_waves(old: RidgeState, group: Tensor, x: Tensor, reward: Tensor, rule: UpdateRule) -> Tensor:
    """Add few observations per row: the first one of every row, then the second of the rows that have one, and so on."""
    gamma = rule.next_gamma(old.gamma)
    order = group.argsort(stable=True)
    starts = torch.searchsorted(group[order], torch.arange(len(old.num_observations), device=group.device))
    position = torch.empty_like(order)
    position[order] = torch.arange(len(order), device=group.device) - starts[group[order]]
    new = pack(old._replace(gamma=gamma))
    for wave in range(int(position.max()) + 1):
        at = (position == wave).nonzero().squeeze(-1)
        rows = group[at]
        state = rule.layout.unpack(new[rows])
        if rule.sums is not None:
            state = state._replace(memory=state.memory + rule.sums.increments(x[at].unsqueeze(-2), reward[at].unsqueeze(-1)))
        new[rows] = pack(observe_one(state, x[at], reward[at], state.gamma, rule.refresh_every))
    return new


def _observe_groups(old: RidgeState, group: Tensor, x: Tensor, reward: Tensor, rule: UpdateRule) -> Tensor:
    """Add many observations per row, as sums over each row's observations."""
    gamma = rule.next_gamma(old.gamma)
    x, reward = x.reshape(len(group), -1, rule.layout.dim), reward.reshape(len(group), -1)
    dV = torch.zeros_like(old.V).index_add(0, group, x.mT @ x)
    db = torch.zeros_like(old.b).index_add(0, group, (x.mT @ reward.unsqueeze(-1)).squeeze(-1))
    dn = torch.zeros_like(old.num_observations).index_add(0, group, x.new_full((len(group),), x.shape[1]))
    if rule.sums is not None:
        old = old._replace(memory=old.memory.index_add(0, group, rule.sums.increments(x, reward)))
    return pack(observe_many(old, dV, db, dn, gamma))
