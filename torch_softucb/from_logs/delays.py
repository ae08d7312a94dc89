"""Delays of the rewards in a decision log."""

import os

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.functional.delays import delay_probabilities
from torch_softucb.problems._checks import MAX_DELAY
from torch_softucb.recommend import log_records
from torch_softucb.recommend.log.codec import Columns
from torch_softucb.recommend.log.logged_decisions import join_rewards

_WHERE = "logged_delays"


def logged_delays(folder: str | os.PathLike[str], *, per_user: bool = True, longest: int = 256) -> Tensor:  # (D + 1,)
    """Estimate the probabilities that a reward arrives 0, 1, ... rounds late, from the order of the records of a log.

    What the probabilities lack to 1 is the share of the decisions whose reward does not arrive.

    The delay of a reward is the number of rounds that its bandit plays between the decision and the reward, as in
    :func:`~torch_softucb.problems.contextual_problem`. The log ends before some rewards have arrived, so the distribution is
    the Kaplan-Meier estimate (``torch_softucb.functional.delays``).

    Args:
        folder: folder of a :class:`~torch_softucb.recommend.DecisionLog`.
        per_user: count the rounds of each bandit separately; False counts all decisions as those of one bandit.
        longest: longer delays count as this one.

    Raises:
        ValueError: if the folder has no decisions, or no reward arrived before a later decision.
    """
    if check_integer(_WHERE, "longest", longest, low=0) > MAX_DELAY:
        raise ValueError(f"{_WHERE}: longest must be at most {MAX_DELAY}, got {longest}")
    delay, later = _delays(folder, per_user)
    probabilities = delay_probabilities(torch.from_numpy(delay), torch.from_numpy(later))
    if not len(probabilities):
        raise ValueError(
            f"{_WHERE}: no reward in {folder} arrived before a later decision of the same bandit, so delays are not known; "
            "give the number of rounds, or per_user=False to count the decisions of all bandits"
        )
    if len(probabilities) > longest + 1:
        probabilities = torch.cat((probabilities[:longest], probabilities[longest:].sum(0, keepdim=True)))
    return probabilities


def _delays(folder: str | os.PathLike[str], per_user: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # (n,), (n,)
    """Return the delay of every decision's reward, or the largest integer, and the number of later rounds of its bandit."""
    decisions: list[NDArray[np.int64]] = []  # id, bandit, position
    rewards: list[Columns] = []  # with the number of decisions before as the reward
    count = 0
    for record_type, columns in log_records(folder):
        if record_type == "decisions":
            decisions.append(np.stack([columns[name] for name in ("id", "bandit", "position")]).astype(np.int64))
            count += len(columns["id"])
        else:
            rewards.append({"id": columns["id"], "reward": np.full(len(columns["id"]), count, np.float64)})
    if not count:
        raise ValueError(
            f"{_WHERE}: no decision in {folder}; give the folder of a DecisionLog, whose records are in the order of arrival"
        )
    ids, bandit, position = np.concatenate(decisions, axis=1)
    owner = np.unique(bandit, return_inverse=True)[1] if per_user else np.zeros_like(bandit)
    first = np.arange(count)[position == 0]  # a slate is one round
    rounds = np.sort(owner[first] * (count + 1) + first)

    def played(before: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of rounds before a decision, counted from any start that is the same for a bandit."""
        return np.searchsorted(rounds, owner * (count + 1) + before)

    own, before = played(np.arange(count) + 1), join_rewards(ids, rewards)
    arrived = ~np.isnan(before)
    delay = np.where(arrived, played(np.where(arrived, before, 0).astype(np.int64)) - own, np.iinfo(np.int64).max)
    return delay, played(np.full(count, count)) - own
