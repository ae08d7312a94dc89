"""Decisions of a log as tensors, joined with their rewards."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.recommend.log._checks import check_rows
from torch_softucb.recommend.log.codec import Columns


class LoggedDecisions(NamedTuple):
    """Decisions in the order in which they were logged, each with its reward if it has arrived.

    Attributes:
        id: int64 (n,), id of the decision.
        bandit: int64 (n,), -1 if there is only one.
        context: int64 (n,), the caller's reference to the request, -1 if there is none.
        arm: int64 (n,), position of the item in the candidate list.
        position: int64 (n,), position in the slate, from 0.
        propensity: float64 (n,), probability of the item; in a slate, given the items before it. NaN in all rows of a
            table without propensities.
        beta: float64 (n,), confidence width, NaN if the policy has none.
        version: int64 (n,), version of the model.
        x: float64 (n, d), features of the item.
        reward: float64 (n,), NaN if it has not arrived.
        candidates: int64 (n, K), ids of the candidate items, -1 where masked or absent; K is 0 if none were logged.
        features: float64 (n, K, d), features of the candidates; K is 0 if none were logged.
    """

    id: Tensor  # (n,)
    bandit: Tensor  # (n,)
    context: Tensor  # (n,)
    arm: Tensor  # (n,)
    position: Tensor  # (n,)
    propensity: Tensor  # (n,)
    beta: Tensor  # (n,)
    version: Tensor  # (n,)
    x: Tensor  # (n, d)
    reward: Tensor  # (n,)
    candidates: Tensor  # (n, K)
    features: Tensor  # (n, K, d)

    @property
    def mask(self) -> Tensor:  # (n, K)
        """Candidates that were allowed."""
        return self.candidates >= 0

    @property
    def has_propensities(self) -> bool:
        """Whether the log has propensities."""
        return not bool(self.propensity.isnan().all())

    @property
    def rewarded(self) -> "LoggedDecisions":
        """The decisions whose reward has arrived."""
        return LoggedDecisions(*(column[~self.reward.isnan()] for column in self))


def join_rewards(ids: NDArray[Any], rewards: list[Columns]) -> NDArray[np.float64]:  # (n,) -> (n,)
    """Return the first reward of each decision, NaN where there is none."""
    joined = np.full(len(ids), np.nan)
    if any(len(part["id"]) for part in rewards):
        rewarded, first = np.unique(np.concatenate([part["id"] for part in rewards]), return_index=True)
        values = np.concatenate([part["reward"] for part in rewards])[first]
        at = np.searchsorted(rewarded, ids).clip(max=len(rewarded) - 1)
        known = rewarded[at] == ids
        joined[known] = values[at[known]]
    return joined


def with_defaults(columns: Columns, *, first: int = 0) -> Columns:
    """Return the columns of a table, with defaults for absent ones except the reward; ids count from ``first``."""
    rows = len(columns["arm"])
    absent = {"id": np.arange(first, first + rows), "bandit": -1, "context": -1, "position": 0, "beta": np.nan, "version": 0}
    absent["propensity"] = np.nan
    return {name: np.broadcast_to(np.asarray(value), (rows,)) for name, value in absent.items()} | columns


def gather_decisions(decisions: list[Columns], reward: NDArray[np.float64]) -> LoggedDecisions:
    """Return the decisions of all chunks as tensors; shorter candidate lists are padded."""
    columns = {
        name: _gathered([chunk[name] for chunk in decisions], -1 if name == "candidates" else 0)
        for name in LoggedDecisions._fields
        if name != "reward"
    }
    return LoggedDecisions(reward=torch.from_numpy(np.array(reward, np.float64)), **columns)


def concatenated(logs: Sequence[LoggedDecisions]) -> LoggedDecisions:
    """Return the decisions of several logs as one; shorter candidate lists are padded."""
    chunks = [{name: column.numpy() for name, column in log._asdict().items()} for log in logs]
    return gather_decisions(chunks, np.concatenate([chunk["reward"] for chunk in chunks]))


def _gathered(chunks: list[NDArray[Any]], empty: float) -> Tensor:  # (n, ...) each -> (sum of n, ...)
    """Return all chunks in one tensor of 64-bit numbers, filled up with ``empty`` along the second dimension."""
    rows = sum(len(chunk) for chunk in chunks)
    size = tuple(max(sizes) for sizes in zip(*(chunk.shape[1:] for chunk in chunks), strict=True))
    dtype = np.float64 if np.issubdtype(chunks[0].dtype, np.floating) else np.int64
    whole, begin = np.full((rows, *size), empty, dtype), 0
    for chunk in chunks:
        part = whole[begin : begin + len(chunk)]
        part[tuple(slice(length) for length in chunk.shape)] = chunk
        begin += len(chunk)
    return torch.from_numpy(whole)


def check_logged_values(where: str, folder: Path, log: LoggedDecisions) -> None:
    """Check that ids are unique, and that propensities and arms are possible."""
    ids = log.id.sort().values
    if bool((ids[1:] == ids[:-1]).any()):
        twice = int(ids[1:][ids[1:] == ids[:-1]][0])
        raise ValueError(
            f"{where}: decision {twice} is in {folder} twice, so that its reward is ambiguous; read the records with "
            "log_records and keep one of them"
        )
    impossible = ~((log.propensity > 0) & (log.propensity <= 1))
    if bool(impossible.any()):
        row = int(impossible.nonzero()[0])
        got = f"{float(log.propensity[row])} for decision {int(log.id[row])}"
        raise ValueError(f"{where}: propensity must be in (0, 1], got {got} in {folder}")
    limit = log.candidates.shape[1] or torch.iinfo(torch.int64).max
    outside = (log.arm < 0) | (log.arm >= limit)
    if bool(outside.any()):
        row = int(outside.nonzero()[0])
        got = f"{int(log.arm[row])} for decision {int(log.id[row])}"
        raise ValueError(f"{where}: arm must be one of the candidates, got {got} in {folder}")


def check_learnable(where: str, log: LoggedDecisions) -> None:
    """Check that the values of a log can be learned from; errors name the first wrong row."""
    if not len(log.id):
        raise ValueError(f"{where}: at least one decision is needed, got none")
    check_decision_rows(where, log)
    if not bool((log.position == 0).any()):
        raise ValueError(
            f"{where}: position must count from 0 within a slate, got at least {int(log.position.min())} everywhere; "
            "subtract it, or use the column context for places on a page"
        )
    if bool(log.reward.isnan().all()):
        raise ValueError(
            f"{where}: none of the {len(log.id)} decisions has a reward; join the rewards by id, or give the log's folder"
        )


def check_decision_rows(where: str, log: LoggedDecisions) -> None:
    """Check the values of every decision; errors name the first wrong row."""
    if not log.x.shape[1]:
        raise ValueError(f"{where}: x must have at least one number in every row, got none")
    for name, value in (("x", log.x), ("features", log.features)):
        check_rows(where, _rows(~value.isfinite()), f"{name} must be finite, got NaN or an infinite number in row {{row}}")
    reward, propensity, arm = log.reward.numpy(), log.propensity.numpy(), log.arm.numpy()
    check_rows(where, np.isinf(reward), "reward must be finite, got an infinite one in row {row}")
    impossible = ~((propensity > 0) & (propensity <= 1)) & log.has_propensities
    check_rows(where, impossible, "propensity must be in (0, 1], got {0} in row {row}", propensity)
    for name, low in (("arm", 0), ("bandit", -1), ("position", 0)):
        column = getattr(log, name).numpy()
        check_rows(where, column < low, f"{name} must be at least {low}, got {{0}} in row {{row}}", column)
    k, mask = log.candidates.shape[1], log.mask
    if k:
        check_rows(where, ~_rows(mask), "candidates must not be empty, got none in row {row}; leave such rows out")
        what = f"arm must be the position of a candidate, below {k}, got {{0}} in row {{row}}"
        check_rows(where, arm >= k, what, arm)
        chosen = mask.gather(1, log.arm.unsqueeze(-1)).squeeze(-1).numpy()
        check_rows(where, ~chosen, "arm must be the position of a candidate, got {0} in row {row}, which is padding", arm)


def _rows(values: Tensor) -> NDArray[np.bool_]:  # (n, ...) -> (n,)
    """Return the rows in which some value is True."""
    found: NDArray[np.bool_] = values.flatten(1).any(-1).numpy()
    return found
