"""Worlds in which candidates are offered as in a log: the sets of the log, one drawn at random in every round."""

import torch
from torch import Tensor

from torch_softucb.from_logs.candidates import CandidateSets
from torch_softucb.problems.base import BanditProblem
from torch_softucb.problems.contextual import contextual_problem
from torch_softucb.rng import uniforms

_ITEMS = 4096  # rows of the item table up to which a world has all of them; worlds of larger tables take some of the sets
NOISES = ("gaussian", "empirical")


def offered_sets(offered: CandidateSets, key: Tensor, *, start: int) -> tuple[Tensor, Tensor]:  # (M, d), (L, K)
    """Return items and the candidate sets that refer to them; random sets of the log if it has too many items.

    Every world has the means of all its items, so that a long log with the features of every candidate would need too much
    memory.

    Args:
        offered: candidate sets of a log.
        key: key of the random choice.
        start: position of its random numbers in their streams.
    """
    if offered.fixed:
        return offered.items, offered.rows[:1]
    if len(offered.items) <= _ITEMS:
        return offered.items, offered.rows
    ids = torch.arange(max(1, _ITEMS // offered.rows.shape[1]), device=offered.rows.device)
    chosen = (uniforms(key, ids, start=start, count=1, dtype=torch.float64)[0] * len(offered.rows)).long()
    rows = offered.rows[chosen]
    used, place = torch.unique(rows.clamp(min=0), return_inverse=True)
    return offered.items[used], place.masked_fill(rows < 0, -1)


def make_worlds(
    items: Tensor,  # (M, d)
    sets: Tensor,  # (L, K)
    theta: Tensor,  # (B, d)
    *,
    offset: float,
    noise: float | Tensor,  # (R,)
    delay: int | Tensor,  # (D + 1,)
) -> BanditProblem:
    """Return one world per theta; a plain problem with fixed arms if that is what the world is.

    Args:
        items: features of the items.
        sets: candidate sets, of which one is drawn per round; -1 is padding.
        theta: parameter vectors.
        offset: constant part of the means.
        noise: standard deviation of Gaussian noise, or residuals to draw from.
        delay: delay of rewards, as in :func:`~torch_softucb.problems.contextual_problem`.
    """
    late = isinstance(delay, Tensor) or delay > 0
    if len(sets) == 1 and not isinstance(noise, Tensor) and not late:
        arms, mask = items[sets[0].clamp(min=0)], sets[0] >= 0
        return BanditProblem(arms, offset + theta @ arms.mT, noise, None if bool(mask.all()) else mask)
    if isinstance(noise, Tensor):
        return contextual_problem(
            items, theta=theta, offset=offset, candidates=sets, reward="empirical", residuals=noise, delay=delay
        )
    return contextual_problem(items, theta=theta, offset=offset, candidates=sets, noise_std=noise, delay=delay)
