"""Decisions and updates of one bandit with disjoint arms, in numpy; see fast_path.py.

The formulas are those of disjoint.py and auto.py; tests/policies/test_disjoint_fast_path.py compares the two.
"""

import numpy as np
import torch
from torch import Tensor

from torch_softucb.policies import auto_fast_path, fast_path
from torch_softucb.policies.auto import AutoSoftUCB
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision
from torch_softucb.policies.fast_path import ArmEstimate, Array
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.policies.rows import RowLayout
from torch_softucb.policies.scales import DUE, NOISE_STD, OFFSET, OFFSET_VARIANCE, SUM_X, TOTAL
from torch_softucb.policies.soft_ucb import SoftUCBPolicy


def estimate(
    rows: Array,  # (K, size)
    context: Array,  # (d,)
    layout: RowLayout,
    *,
    has_scales: bool,
    prior: GaussianPrior | None = None,
) -> ArmEstimate:
    """Return the mean and width of each arm for one context; with scales, as :func:`auto_fast_path.estimate` has them."""
    if prior is None:
        return _estimate(rows, context, layout, has_scales=has_scales)
    found = _estimate(rows, context @ prior.arrays.factor, layout, has_scales=has_scales)
    return fast_path.with_prior(found, context, prior)


def _estimate(rows: Array, x: Array, layout: RowLayout, *, has_scales: bool) -> ArmEstimate:  # (K, size), (d,)
    dim = layout.dim
    roots, b = rows[:, layout.root].reshape(-1, dim, dim), rows[:, layout.b]
    w = x @ roots  # (K, d)
    square = np.vecdot(w, w)
    if not has_scales:
        return ArmEstimate(_means(w, roots, b), np.sqrt(square))
    memory = rows[:, layout.memory]
    head = memory[0]
    slope = 1 - memory[:, SUM_X + dim :] @ x  # of an arm's mean with respect to the offset
    width = np.sqrt(square + head[OFFSET_VARIANCE] * slope * slope)
    base, noise = float(head[0] + head[OFFSET]), float(head[NOISE_STD])
    if noise == 0:
        return ArmEstimate(np.zeros(len(w)), width, base)
    b = b - head[OFFSET] * memory[:, SUM_X : SUM_X + dim]  # sum x (y - c)
    return ArmEstimate(_means(w, roots, b), width * noise, base)


def _means(w: Array, roots: Array, b: Array) -> Array:  # (K, d), (K, d, d), (K, d) -> (K,)
    means: Array = np.vecdot(w, (b[:, None, :] @ roots)[:, 0])
    return means


def decide(where: str, policy: BanditPolicy, context: Tensor, mask: Tensor | None) -> Decision | None:  # (d,), (K,)
    """Decide on one context; None where numpy does not apply, or for policies without a fast path."""
    statistics = policy.statistics
    if torch.is_grad_enabled() or not isinstance(policy, SoftUCBPolicy) or not _applies(statistics, context):
        return None
    if not policy.has_single_beta:
        return None
    has_scales = isinstance(policy, AutoSoftUCB)
    with policy.guard.lock:  # updates write to the rows in place
        policy.guard.recover()
        rows = policy.statistics.numpy()
        x, prior = context.numpy().astype(np.float64), policy.prior
        found = estimate(rows, x, policy.layout, has_scales=has_scales, prior=prior)
        count = float(np.add.reduce(rows[:, policy.layout.num_observations]))
        head = rows[0, policy.layout.memory].copy()
    return policy.choose_one(where, context, mask, found, head, count)


def update(policy: BanditPolicy, context: Tensor, arm: Tensor, reward: Tensor) -> bool:  # (d,), (), ()
    """Learn from one reward; returns False, and changes nothing, where numpy does not apply."""
    if policy.remembers or policy.carries_gamma or not _applies(policy.statistics, context):
        return False
    layout, row = policy.layout, int(arm)
    with policy.guard.lock:
        policy.guard.recover()
        rows = policy.statistics.numpy()
        at = layout.memory.start + TOTAL  # of the first row: observations of all arms
        if not isinstance(policy, AutoSoftUCB):
            if policy.memory_sums is not None:
                return False
            every, prior = policy.refresh_every, policy.prior
            new = fast_path.observed(policy.statistics[row], context, reward, None, every, layout, prior)
            total = None
        else:
            total = float(rows[0, at]) + 1
            if total == 1 or total >= rows[0, layout.memory.start + DUE]:  # anchors and scales are set in torch
                return False
            new = auto_fast_path.added(rows[row], context, reward, policy.refresh_every, layout, policy.prior)
        if new is None:
            return False
        old, old_total = rows[row].copy(), None if total is None else total - 1
        policy.guard.commit(lambda: _write(rows, row, new, at, total), lambda: _write(rows, row, old, at, old_total))
    return True


def _write(rows: Array, row: int, new: Array, at: int, total: float | None) -> None:  # (K, size), (size,)
    rows[row] = new
    if total is not None:
        rows[0, at] = total


def _applies(statistics: Tensor, context: Tensor) -> bool:  # (K, size), (d,)
    return statistics.dim() == 2 and statistics.is_cpu and fast_path.numpy_can_read(context, dims=1)
