"""Reading a decision log: the whole log as tensors, or record by record."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from torch_softucb.recommend.log._checks import check_pyarrow, check_same_dims
from torch_softucb.recommend.log.codec import Columns, decode
from torch_softucb.recommend.log.journal import records
from torch_softucb.recommend.log.logged_decisions import LoggedDecisions, check_learnable, gather_decisions, join_rewards
from torch_softucb.recommend.log.segments import RECORD_TYPES, Place, is_sealed, segment_path, segments


def log_records(folder: str | os.PathLike[str], start: Place | None = None) -> Iterator[tuple[str, Columns]]:
    """Yield the records of a log in order, each as ("decisions", columns) or ("rewards", columns).

    Args:
        folder: folder of a :class:`DecisionLog`.
        start: position of the first record; by default the beginning of the log.
    """
    folder, start = Path(folder), start or Place(0, 0)
    for number in segments(folder):
        if number < start.segment:
            continue
        first = start.record if number == start.segment else 0
        if is_sealed(folder, number):
            yield from _by_record(_sealed_columns(folder, number), first)
            continue
        for place, record in enumerate(records(segment_path(folder, number))):
            if place >= first:
                yield decode(record)


def _sealed_columns(folder: Path, number: int) -> dict[str, list[Columns]]:
    check_pyarrow("read_log")
    from torch_softucb.recommend.log.parquet import read_segment

    return read_segment(folder, number)


def _by_record(segment: dict[str, list[Columns]], first: int) -> Iterator[tuple[str, Columns]]:
    """Yield the rows of a sealed segment record by record, starting with the record ``first``."""
    parts = []
    for record_type, chunks in segment.items():
        for columns in chunks:
            place, begin = np.unique(columns["record"], return_index=True)
            for record, rows in zip(place, np.split(np.arange(len(columns["id"])), begin[1:]), strict=True):
                if record >= first:
                    parts.append((int(record), record_type, {name: values[rows] for name, values in columns.items()}))
    for _, record_type, columns in sorted(parts, key=lambda part: part[0]):
        yield record_type, columns


def read_log(folder: str | os.PathLike[str]) -> LoggedDecisions:
    """Read a whole log as tensors, with the rewards joined to the decisions by id.

    If a decision has two rewards, the first one counts.

    Args:
        folder: folder of a :class:`DecisionLog`.

    Raises:
        ValueError: if there is no decision, or decisions have different numbers of features.
        JournalError: if a journal is damaged.
    """
    folder = Path(folder)
    chunks: dict[str, list[Columns]] = {record_type: [] for record_type in RECORD_TYPES}
    for number in segments(folder):
        if is_sealed(folder, number):
            for record_type, columns_list in _sealed_columns(folder, number).items():
                chunks[record_type] += columns_list
            continue
        for record in records(segment_path(folder, number)):
            record_type, columns = decode(record)
            chunks[record_type].append(columns)
    decisions = chunks["decisions"]
    if not decisions:
        raise ValueError(f"read_log: no decision in {folder}; is this the folder of a DecisionLog?")
    check_same_dims("read_log", [chunk["x"].shape[1] for chunk in decisions])
    ids = np.concatenate([chunk["id"] for chunk in decisions])
    return gather_decisions(decisions, join_rewards(ids, chunks["rewards"]))


def read_decisions(path: str | os.PathLike[str]) -> LoggedDecisions:
    """Read decisions from a log or from a Parquet table, and check that they can be learned from.

    Files are parsed as numbers; nothing in them is executed.

    Args:
        path: the folder of a :class:`DecisionLog`; one of its ``.decisions.parquet`` files, whose rewards are in the
            ``.rewards.parquet`` files next to it; or any Parquet table with one row per decision and the columns ``x``
            (list of d numbers), ``arm``, ``propensity``, ``reward`` (null: not arrived) and, where they are known,
            ``features`` (of all candidates, K lists of d numbers), ``candidates`` (K item ids), ``bandit``, ``position`` and
            the other columns of :class:`LoggedDecisions`.

    Raises:
        ValueError: if the file is not a log, or a value is impossible (no rewards, a propensity outside (0, 1], NaN).
        TypeError: if a column has the wrong type.
        ImportError: if pyarrow is not installed and the path is a Parquet file or a sealed log.

    Example:
        >>> import tempfile, pandas as pd
        >>> rows = {"x": [[1.0, 0.0], [0.0, 1.0]], "arm": [0, 1], "propensity": [0.9, 0.1], "reward": [1.0, 0.0]}
        >>> path = Path(tempfile.mkdtemp()) / "log.parquet"
        >>> pd.DataFrame(rows).to_parquet(path)
        >>> read_decisions(path).propensity
        tensor([0.9000, 0.1000], dtype=torch.float64)
    """
    where, path = "read_decisions", Path(path)
    if not path.exists():
        raise ValueError(f"{where}: {path} is not there; give a decision log's folder, or a Parquet file of decisions")
    if path.name.endswith(".rewards.parquet"):
        raise ValueError(f"{where}: {path} holds rewards; give the .decisions.parquet file next to it, or the folder")
    log = read_log(path) if path.is_dir() else _from_file(path)
    check_learnable(where, log)
    return log


def _from_file(path: Path) -> LoggedDecisions:
    check_pyarrow("read_decisions")
    from torch_softucb.recommend.log.foreign_table import read_table

    beside = sorted(path.parent.glob("????????.rewards.parquet")) if path.name.endswith(".decisions.parquet") else []
    columns = read_table(path, needed=("x", "arm", "propensity", *(["id"] if beside else ["reward"])))
    rows = len(columns["arm"])
    absent = {"id": np.arange(rows), "bandit": -1, "context": -1, "position": 0, "beta": np.nan, "version": 0}
    for name, value in absent.items():
        columns.setdefault(name, np.broadcast_to(np.asarray(value), (rows,)))
    rewards = [read_table(file, needed=("id", "reward")) for file in beside]
    reward = join_rewards(columns["id"], rewards) if beside else columns["reward"]
    return gather_decisions([columns], reward)
