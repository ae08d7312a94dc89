"""Reading a decision log: the whole log as tensors, or record by record."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from torch_softucb.recommend.log._checks import check_pyarrow, check_same_dims, check_tensor_bytes
from torch_softucb.recommend.log.codec import Columns
from torch_softucb.recommend.log.logged_decisions import (
    LoggedDecisions,
    check_learnable,
    check_logged_values,
    gather_decisions,
    join_rewards,
)
from torch_softucb.recommend.log.manifests import load_durable
from torch_softucb.recommend.log.segment_reader import by_record, read_chunks
from torch_softucb.recommend.log.segments import RECORD_TYPES, Place, complete_segments, log_bytes, segments


def log_records(folder: str | os.PathLike[str], start: Place | None = None) -> Iterator[tuple[str, Columns]]:
    """Yield the records of a log in order, each as ("decisions", columns) or ("rewards", columns).

    Reads one segment at a time, whatever the lengths of the features. A writer may have the log open.

    Args:
        folder: folder of a :class:`DecisionLog`.
        start: position of the first record; by default the beginning of the log.

    Raises:
        JournalError: if a segment is damaged, incomplete or missing.
        ValueError: if the log has fewer records than ``start``.
    """
    folder = Path(folder)
    if not segments(folder):
        return
    durable = load_durable(folder)
    numbers = complete_segments(folder, durable)
    if start is not None and not (start.record >= 0 and (start.segment == 0 or start.segment in numbers)):
        raise ValueError(f"log_records: {start} is not in the log in {folder}, which has {len(numbers)} segments")
    for number in numbers:
        if start is not None and number < start.segment:
            continue
        records = list(by_record(read_chunks(folder, number, durable, last=number == numbers[-1])))
        first = start.record if start is not None and number == start.segment else 0
        if first > len(records):
            raise ValueError(
                f"log_records: {start} is not in the log in {folder}, whose segment {number} has {len(records)} records"
            )
        yield from records[first:]


def read_log(folder: str | os.PathLike[str], *, dim: int | None = None, max_bytes: int | None = None) -> LoggedDecisions:
    """Read a whole log as tensors, with the rewards joined to the decisions by id.

    If a decision has two rewards, the first one counts. A writer may have the log open.

    Args:
        folder: folder of a :class:`DecisionLog`.
        dim: read only the decisions whose features have this length; needed for a log of models with different ones.
        max_bytes: memory that the tensors may take; by default 40 MB and twice the size of the log. Candidate lists of
            different lengths are padded to the longest one.

    Raises:
        ValueError: if there is no decision, decisions have different numbers of features, the tensors would be too large,
            an id comes twice, or a propensity or arm is impossible.
        JournalError: if a segment is damaged, incomplete or missing.
    """
    folder = Path(folder)
    chunks: dict[str, list[Columns]] = {record_type: [] for record_type in RECORD_TYPES}
    size = 0
    if segments(folder):
        durable = load_durable(folder)
        numbers = complete_segments(folder, durable)
        size = log_bytes(folder)
        for number in numbers:
            for record_type, columns in read_chunks(folder, number, durable, last=number == numbers[-1]):
                chunks[record_type].append(columns)
    decisions = [chunk for chunk in chunks["decisions"] if dim is None or chunk["x"].shape[1] == dim]
    if not decisions:
        suffix = "" if dim is None else f" with {dim} features"
        raise ValueError(f"read_log: no decision{suffix} in {folder}; is this the folder of a DecisionLog?")
    check_same_dims(
        "read_log", [chunk["x"].shape[1] for chunk in decisions], "read each length with read_log(folder, dim=...)"
    )
    check_tensor_bytes("read_log", decisions, size, max_bytes)
    ids = np.concatenate([chunk["id"] for chunk in decisions])
    log = gather_decisions(decisions, join_rewards(ids, chunks["rewards"]))
    check_logged_values("read_log", folder, log)
    return log


def read_decisions(path: str | os.PathLike[str], *, dim: int | None = None, max_bytes: int | None = None) -> LoggedDecisions:
    """Read decisions from a log or from a Parquet table, and check that they can be learned from.

    Files are parsed as numbers; nothing in them is executed.

    Args:
        path: the folder of a :class:`DecisionLog`; one of its ``.decisions.parquet`` files, whose rewards are in the
            ``.rewards.parquet`` files next to it; or any Parquet table with one row per decision and the columns ``x``
            (list of d numbers), ``arm``, ``propensity``, ``reward`` (null: not arrived) and, where they are known,
            ``features`` (of all candidates, K lists of d numbers), ``candidates`` (K item ids), ``bandit``, ``position`` and
            the other columns of :class:`LoggedDecisions`.
        dim: for a folder, read only the decisions whose features have this length.
        max_bytes: memory that the tensors may take; by default 40 MB and twice the size of the files.

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
    log = read_log(path, dim=dim, max_bytes=max_bytes) if path.is_dir() else _from_file(path, max_bytes)
    check_learnable(where, log)
    return log


def _from_file(path: Path, max_bytes: int | None) -> LoggedDecisions:
    check_pyarrow("read_decisions")
    from torch_softucb.recommend.log.foreign_table import read_table
    from torch_softucb.recommend.log.parquet_bytes import check_manifest_beside

    beside = sorted(path.parent.glob("????????.rewards.parquet")) if path.name.endswith(".decisions.parquet") else []
    for file in {path, *beside}:
        check_manifest_beside(file)
    needed = ("x", "arm", "propensity", *(["id"] if beside else ["reward"]))
    columns = read_table(path, needed=needed, max_bytes=max_bytes)
    rows = len(columns["arm"])
    absent = {"id": np.arange(rows), "bandit": -1, "context": -1, "position": 0, "beta": np.nan, "version": 0}
    for name, value in absent.items():
        columns.setdefault(name, np.broadcast_to(np.asarray(value), (rows,)))
    rewards = [read_table(file, needed=("id", "reward"), max_bytes=max_bytes) for file in beside]
    reward = join_rewards(columns["id"], rewards) if beside else columns["reward"]
    return gather_decisions([columns], reward)
