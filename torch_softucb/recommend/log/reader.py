"""Reading a decision log: all of it as tensors, or record by record."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.recommend.log._checks import check_decision_file, check_logged_numbers, check_same_dims
from torch_softucb.recommend.log.codec import Columns, decode
from torch_softucb.recommend.log.journal import records
from torch_softucb.recommend.log.writer import Place, is_sealed, segment_path, segments


class LoggedDecisions(NamedTuple):
    """Decisions in the order in which they were logged, each with its reward if it has come."""

    id: Tensor  # (n,) int64
    bandit: Tensor  # (n,) int64, -1: one bandit for all
    context: Tensor  # (n,) int64, -1: none
    arm: Tensor  # (n,) int64
    position: Tensor  # (n,) int64, in a slate
    propensity: Tensor  # (n,) float64
    beta: Tensor  # (n,) float64, NaN: none
    version: Tensor  # (n,) int64
    x: Tensor  # (n, d) float64
    reward: Tensor  # (n,) float64, NaN: has not come
    candidates: Tensor  # (n, K) int64 item ids, -1: not allowed, or no such candidate; K is 0 when none were logged
    features: Tensor  # (n, K, d) float64; K is 0 when none were logged

    @property
    def mask(self) -> Tensor:  # (n, K)
        return self.candidates >= 0

    @property
    def rewarded(self) -> "LoggedDecisions":
        """Only those whose reward has come."""
        return LoggedDecisions(*(column[~self.reward.isnan()] for column in self))


def log_records(folder: str | os.PathLike[str], start: Place | None = None) -> Iterator[tuple[str, Columns]]:
    """The records from ``start`` on, in order: ("decisions", columns) or ("rewards", columns)."""
    folder, start = Path(folder), start or Place(0, 0)
    for number in segments(folder):
        if number < start.segment:
            continue
        first = start.record if number == start.segment else 0
        if is_sealed(folder, number):
            from torch_softucb.recommend.log.parquet import read_segment

            yield from _by_record(read_segment(folder, number), first)
            continue
        for place, record in enumerate(records(segment_path(folder, number))):
            if place >= first:
                yield decode(record)


def _by_record(found: dict[str, list[Columns]], first: int) -> Iterator[tuple[str, Columns]]:
    parts = []
    for kind, chunks in found.items():
        for columns in chunks:
            place, begin = np.unique(columns["record"], return_index=True)
            for record, rows in zip(place, np.split(np.arange(len(columns["id"])), begin[1:]), strict=True):
                if record >= first:
                    parts.append((int(record), kind, {name: values[rows] for name, values in columns.items()}))
    for _, kind, columns in sorted(parts, key=lambda part: part[0]):
        yield kind, columns


def read_log(folder: str | os.PathLike[str]) -> LoggedDecisions:
    """The whole log as tensors, rewards joined to decisions by id; of two rewards for one decision the first counts."""
    folder = Path(folder)
    found: dict[str, list[Columns]] = {"decisions": [], "rewards": []}
    for number in segments(folder):
        if is_sealed(folder, number):
            from torch_softucb.recommend.log.parquet import read_segment

            for kind, chunks in read_segment(folder, number).items():
                found[kind] += chunks
            continue
        for record in records(segment_path(folder, number)):
            kind, columns = decode(record)
            found[kind].append(columns)
    if not found["decisions"]:
        raise ValueError(f"read_log: no decision in {folder}; is this the folder of a DecisionLog?")
    check_same_dims("read_log", [chunk["x"].shape[1] for chunk in found["decisions"]])
    ids = np.concatenate([chunk["id"] for chunk in found["decisions"]])
    return _gathered(found["decisions"], _joined(ids, found["rewards"]))


def read_decisions(path: str | os.PathLike[str]) -> LoggedDecisions:
    """Decisions from wherever they lie; what cannot be is named (no rewards, a propensity outside (0, 1], NaN).

    Args:
        path: the folder of a :class:`DecisionLog`; one of its ``.decisions.parquet`` files, whose rewards are in the
            ``.rewards.parquet`` files beside it; or any Parquet table with a row for each decision and the columns ``x``
            (list of d numbers), ``arm``, ``propensity``, ``reward`` (null: has not come) and, where they are known,
            ``features`` (of all candidates, K lists of d numbers), ``candidates`` (K item ids), ``bandit``, ``position`` and
            the rest of :class:`LoggedDecisions`.

    Files are parsed as numbers; nothing in them is run.

    Example:
        >>> import tempfile, pandas as pd
        >>> rows = {"x": [[1.0, 0.0], [0.0, 1.0]], "arm": [0, 1], "propensity": [0.9, 0.1], "reward": [1.0, 0.0]}
        >>> path = Path(tempfile.mkdtemp()) / "log.parquet"
        >>> pd.DataFrame(rows).to_parquet(path)
        >>> read_decisions(path).propensity
        tensor([0.9000, 0.1000], dtype=torch.float64)
    """
    where, path = "read_decisions", Path(path)
    check_decision_file(where, path)
    log = read_log(path) if path.is_dir() else _from_file(path)
    check_logged_numbers(where, log)
    return log


def _from_file(path: Path) -> LoggedDecisions:
    from torch_softucb.recommend.log.parquet import read_table

    beside = sorted(path.parent.glob("????????.rewards.parquet")) if path.name.endswith(".decisions.parquet") else []
    columns = read_table(path, needed=("x", "arm", "propensity", *(["id"] if beside else ["reward"])))
    rows = len(columns["arm"])
    absent = {"id": np.arange(rows), "bandit": -1, "context": -1, "position": 0, "beta": np.nan, "version": 0}
    for name, value in absent.items():
        columns.setdefault(name, np.broadcast_to(np.asarray(value), (rows,)))
    rewards = [read_table(file, needed=("id", "reward")) for file in beside]
    reward = _joined(columns["id"], rewards) if beside else columns["reward"]
    return _gathered([columns], reward)


def _gathered(decisions: list[Columns], reward: NDArray[np.float64]) -> LoggedDecisions:
    """Tensors of all decisions; those with fewer candidates than others are padded."""
    k = max(chunk["candidates"].shape[1] for chunk in decisions)
    full = max(chunk["features"].shape[1] for chunk in decisions)
    columns = {
        name: np.concatenate([chunk[name] for chunk in decisions])
        for name in LoggedDecisions._fields
        if name not in ("reward", "candidates", "features")
    }
    columns["candidates"] = np.concatenate([_wide(chunk["candidates"], k, -1) for chunk in decisions])
    columns["features"] = np.concatenate([_wide(chunk["features"], full, 0) for chunk in decisions])
    columns["reward"] = reward
    exact: dict[str, Any] = {"x": np.float64, "features": np.float64}
    return LoggedDecisions(
        **{
            name: torch.from_numpy(columns[name].astype(exact.get(name, columns[name].dtype)))
            for name in LoggedDecisions._fields
        }
    )


def _wide(values: NDArray[Any], size: int, empty: float) -> NDArray[Any]:  # (n, K, ...) -> (n, size, ...)
    missing = [(0, 0), (0, size - values.shape[1]), *[(0, 0)] * (values.ndim - 2)]
    return np.pad(values, missing, constant_values=empty)


def _joined(ids: NDArray[Any], rewards: list[Columns]) -> NDArray[np.float64]:
    joined = np.full(len(ids), np.nan)
    if rewards:
        names, first = np.unique(np.concatenate([part["id"] for part in rewards]), return_index=True)
        values = np.concatenate([part["reward"] for part in rewards])[first]
        at = np.searchsorted(names, ids).clip(max=len(names) - 1)
        known = names[at] == ids
        joined[known] = values[at[known]]
    return joined
