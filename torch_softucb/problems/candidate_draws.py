"""Which items of a pool are offered in each round, and how late rewards arrive."""

import torch
from torch import Tensor

from torch_softucb.problems.contextual import ContextualProblem
from torch_softucb.rng import uniforms

_NUMBERS = 2**22  # random numbers in memory at once when items are weighted


def draw_candidates(problem: ContextualProblem, key: Tensor, *, start: int, count: int) -> Tensor:  # () -> (count, *B, K)
    """Return the item numbers that each trajectory is offered in rounds ``start`` to ``start + count - 1``; -1 for none.

    Args:
        problem: the problems.
        key: key of the stream of candidates.
        start: first round, counted from 0.
        count: number of rounds.
    """
    batch, k = problem.batch_shape, problem.slots
    if problem.sets is not None:
        u = uniforms(key, problem.ids, start=start, count=count, dtype=torch.float64)
        drawn = problem.sets[(u * len(problem.sets)).long()]  # (count, *B, K)
        return drawn if problem.mask is None else drawn.masked_fill(~problem.mask[drawn.clamp(min=0)], -1)
    if problem.weights is not None:
        at_once = max(1, _NUMBERS // max(1, problem.means.numel()))
        parts = [_race(problem, key, t, min(at_once, start + count - t)) for t in range(start, start + count, at_once)]
        return torch.cat(parts)
    if problem.num_candidates is None:
        every = torch.arange(k, device=key.device).expand(*batch, k)
        return (every if problem.mask is None else every.masked_fill(~problem.mask, -1)).expand(count, *batch, k)
    order, available = allowed_items(problem)
    u = uniforms(key, problem.ids, start=start * k, count=count * k, dtype=torch.float64)
    places = _subset(u.view(count, k, *batch), available)
    if order is None:
        return places
    items = order.expand(count, *order.shape).gather(-1, places)
    empty = torch.arange(k, device=key.device) >= available.unsqueeze(-1)
    return items.masked_fill(empty, -1)


def allowed_items(problem: ContextualProblem) -> tuple[Tensor | None, Tensor]:  # (*B, M) int64, (*B,) int64
    """Return the items of each trajectory, allowed ones first (None if all are), and how many are allowed."""
    batch, device = problem.batch_shape, problem.means.device
    if problem.mask is None:
        return None, torch.full(batch, problem.num_arms, device=device)
    mask = problem.mask.expand(*batch, -1)
    return (~mask).long().argsort(dim=-1, stable=True), mask.sum(-1)


def _subset(u: Tensor, available: Tensor) -> Tensor:  # (n, K, *B), (*B,) -> (n, *B, K)
    """Return K distinct numbers below ``available``, every subset with the same probability, by Floyd's algorithm.

    With i numbers chosen, the next is drawn from 0 ... j, where j = available - K + i; if it was chosen before, j is taken.
    Where fewer than K are available, the first ones are returned.
    """
    k = u.shape[1]
    chosen = torch.empty(*u.shape[:1], *u.shape[2:], k, dtype=torch.int64, device=u.device)
    for i in range(k):
        j = available - k + i
        pick = (u[:, i] * (j + 1)).long()  # at most j: u is at most 1 - 2^-53
        repeated = (chosen[..., :i] == pick.unsqueeze(-1)).any(-1)
        chosen[..., i] = torch.where(repeated, j.expand_as(pick), pick)
    few = (available < k).unsqueeze(-1)
    return torch.where(few, torch.arange(k, device=u.device).expand_as(chosen), chosen)


def _race(problem: ContextualProblem, key: Tensor, start: int, count: int) -> Tensor:  # () -> (count, *B, K)
    """Draw items one after the other in proportion to their weights, without replacement.

    Item i gets an exponential arrival time of rate w_i; the K that arrive first are such a draw.
    """
    assert problem.weights is not None
    m = problem.num_arms
    u = uniforms(key, problem.ids, start=start * m, count=count * m, dtype=torch.float64)
    u = u.view(count, m, *problem.batch_shape).movedim(1, -1)
    rate = problem.weights.double() / problem.weights.double().amax()  # whatever the unit, arrival times are finite
    rate = rate if problem.mask is None else rate * problem.mask
    arrival, item = (torch.log1p(-u).neg_() / rate).topk(problem.slots, dim=-1, largest=False)
    return item.masked_fill(~arrival.isfinite(), -1)


def draw_delays(problem: ContextualProblem, key: Tensor, *, start: int, count: int) -> Tensor:  # () -> (count, *B) int64
    """Return by how many rounds the rewards of each round are late; D + 1 for a reward that never arrives.

    Args:
        problem: problems with random delays.
        key: key of the stream of delays.
        start: first round, counted from 0.
        count: number of rounds.
    """
    assert problem.delay is not None
    u = uniforms(key, problem.ids, start=start, count=count, dtype=torch.float64)
    edges = problem.delay.double().cumsum(0)
    edges = torch.where(edges >= 1 - 1e-6, torch.ones_like(edges), edges)  # probabilities that add up to 1 lose nothing
    return torch.searchsorted(edges, u, right=True)
