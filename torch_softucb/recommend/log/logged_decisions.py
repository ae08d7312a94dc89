"""Decisions of a log as tensors, joined with their rewards."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.checks import check_finite
from torch_softucb.functional._checks import check_log_columns
from torch_softucb.recommend.log.codec import Columns


class LoggedDecisions(NamedTuple):
    """Decisions in the order in which they were logged, each with its reward if it has arrived.

    Attributes:
        id: int64 (n,), id of the decision.
        bandit: int64 (n,), -1 if there is only one.
        context: int64 (n,), the caller's reference to the request, -1 if there is none.
        arm: int64 (n,), position of the item in the candidate list.
        position: int64 (n,), position in the slate, from 0.
        propensity: float64 (n,), probability of the item; in a slate, given the items before it.
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
    def rewarded(self) -> "LoggedDecisions":
        """The decisions whose reward has arrived."""
        return LoggedDecisions(*(column[~self.reward.isnan()] for column in self))


def join_rewards(ids: NDArray[Any], rewards: list[Columns]) -> NDArray[np.float64]:  # (n,) -> (n,)
    """Return the first reward of each decision, NaN where there is none."""
    joined = np.full(len(ids), np.nan)
    if rewards:
        rewarded, first = np.unique(np.concatenate([part["id"] for part in rewards]), return_index=True)
        values = np.concatenate([part["reward"] for part in rewards])[first]
        at = np.searchsorted(rewarded, ids).clip(max=len(rewarded) - 1)
        known = rewarded[at] == ids
        joined[known] = values[at[known]]
    return joined


def gather_decisions(decisions: list[Columns], reward: NDArray[np.float64]) -> LoggedDecisions:
    """Return the decisions of all chunks as tensors; shorter candidate lists are padded."""
    num_candidates = max(chunk["candidates"].shape[1] for chunk in decisions)
    num_features = max(chunk["features"].shape[1] for chunk in decisions)
    columns = {
        name: np.concatenate([chunk[name] for chunk in decisions])
        for name in LoggedDecisions._fields
        if name not in ("reward", "candidates", "features")
    }
    columns["candidates"] = np.concatenate([_widened(chunk["candidates"], num_candidates, -1) for chunk in decisions])
    columns["features"] = np.concatenate([_widened(chunk["features"], num_features, 0) for chunk in decisions])
    columns["reward"] = reward
    exact: dict[str, Any] = {"x": np.float64, "features": np.float64}
    return LoggedDecisions(
        **{
            name: torch.from_numpy(columns[name].astype(exact.get(name, columns[name].dtype)))
            for name in LoggedDecisions._fields
        }
    )


def _widened(values: NDArray[Any], size: int, empty: float) -> NDArray[Any]:  # (n, K, ...) -> (n, size, ...)
    missing = [(0, 0), (0, size - values.shape[1]), *[(0, 0)] * (values.ndim - 2)]
    return np.pad(values, missing, constant_values=empty)


def check_learnable(where: str, log: LoggedDecisions) -> None:
    """Check that the values of a log can be learned from."""
    if not len(log.id):
        raise ValueError(f"{where}: at least one decision is needed, got none")
    if not log.x.shape[1]:
        raise ValueError(f"{where}: x must have at least one number in every row, got none")
    check_finite(where, "x", log.x)
    check_finite(where, "features", log.features)
    check_log_columns(where, None, None, log.propensity, log.x.shape)
    if bool(log.reward.isinf().any()):
        row = int(log.reward.isinf().nonzero()[0])
        raise ValueError(f"{where}: reward must be finite, got an infinite one in row {row}")
    if not bool((~log.reward.isnan()).any()):
        raise ValueError(
            f"{where}: none of the {len(log.id)} decisions has a reward; join the rewards by id, or give the log's folder"
        )
