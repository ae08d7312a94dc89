"""Reading a decision log: the whole log as tensors, or record by record."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from torch_softucb.recommend.log._checks import check_pyarrow, check_same_dims, check_tensor_bytes
from torch_softucb.recommend.log.codec import Columns
from torch_softucb.recommend.log.logged_decisions import (
    LoggedDecisions,
    check_learnable,
    check_logged_values,
    gather_decisions,
    join_rewards,
    with_defaults,
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
        "read_log",
        [chunk["x"].shape[1] for chunk in decisions],
        "read each length with read_log(folder, dim=...)",
        unit="record",
    )
    check_tensor_bytes("read_log", decisions, size, max_bytes)
    ids = np.concatenate([chunk["id"] for chunk in decisions])
    log = gather_decisions(decisions, join_rewards(ids, chunks["rewards"]))
    check_logged_values("read_log", folder, log)
    return log


class ArrowStream(Protocol):
    """A table in memory with the Arrow stream protocol: a pandas or polars DataFrame, or a pyarrow Table."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the table as an Arrow stream."""


def read_decisions(
    source: str | os.PathLike[str] | ArrowStream, *, dim: int | None = None, max_bytes: int | None = None
) -> LoggedDecisions:
    """Read decisions from a log, a Parquet table or a DataFrame, and check that they can be learned from.

    Files are parsed as numbers; nothing in them is executed.

    Args:
        source: the folder of a :class:`DecisionLog`; one of its ``.decisions.parquet`` files, whose rewards are in the
            ``.rewards.parquet`` files next to it; or any Parquet file, pandas DataFrame or polars DataFrame with one row per
            decision and the columns ``x`` (list of d numbers), ``arm``, ``reward`` (null: not arrived) and, where they are
            known, ``propensity``, ``features`` (of all candidates, K lists of d numbers), ``candidates`` (K item ids),
            ``bandit``, ``position`` and the other columns of :class:`LoggedDecisions`. Without ``propensity`` the policy
            can be learned; evaluation then rests on an estimated model of the logging policy.
        dim: for a folder, read only the decisions whose features have this length.
        max_bytes: memory that the tensors may take; by default 40 MB and twice the size of the files.

    Raises:
        ValueError: if the file is not a log, or a value is impossible (no rewards, a propensity outside (0, 1], NaN).
        TypeError: if a column has the wrong type.
        ImportError: if pyarrow is not installed and the source is not the folder of a log without sealed files.

    Example:
        >>> import pandas as pd
        >>> rows = {"x": [[1.0, 0.0], [0.0, 1.0]], "arm": [0, 1], "propensity": [0.9, 0.1], "reward": [1.0, None]}
        >>> log = read_decisions(pd.DataFrame(rows))
        >>> log.propensity, log.reward
        (tensor([0.9000, 0.1000], dtype=torch.float64), tensor([1., nan], dtype=torch.float64))
    """
    where = "read_decisions"
    if not isinstance(source, (str, os.PathLike)):
        where = f"{where}: {type(source).__name__}"
        log = _from_frame(source, where, max_bytes)
    else:
        path = Path(source)
        if not path.exists():
            raise ValueError(f"{where}: {path} is not there; give a decision log's folder, or a Parquet file of decisions")
        if path.name.endswith(".rewards.parquet"):
            raise ValueError(f"{where}: {path} holds rewards; give the .decisions.parquet file next to it, or the folder")
        where = f"{where}: {path}"
        log = read_log(path, dim=dim, max_bytes=max_bytes) if path.is_dir() else _from_file(path, where, max_bytes)
    check_learnable(where, log)
    return log


def _from_frame(frame: object, where: str, max_bytes: int | None) -> LoggedDecisions:
    if not hasattr(frame, "__arrow_c_stream__"):
        raise TypeError(
            f"{where}: a path or a DataFrame is expected, got neither; collect a lazy table first, and turn other tables "
            "into a pandas or polars DataFrame"
        )
    check_pyarrow("read_decisions")
    from torch_softucb.recommend.log.foreign_table import frame_table, read_table

    columns = read_table(frame_table(where, frame), where=where, needed=("x", "arm", "reward"), max_bytes=max_bytes)
    return gather_decisions([with_defaults(columns)], columns["reward"])


def _from_file(path: Path, where: str, max_bytes: int | None) -> LoggedDecisions:
    check_pyarrow("read_decisions")
    from torch_softucb.recommend.log.foreign_table import read_table
    from torch_softucb.recommend.log.parquet_bytes import check_manifest_beside

    beside = sorted(path.parent.glob("????????.rewards.parquet")) if path.name.endswith(".decisions.parquet") else []
    for file in {path, *beside}:
        check_manifest_beside(file)
    needed = ("x", "arm", *(["id"] if beside else ["reward"]))
    columns = with_defaults(read_table(path, where=where, needed=needed, max_bytes=max_bytes))
    rewards = [
        read_table(file, where=f"read_decisions: {file}", needed=("id", "reward"), max_bytes=max_bytes) for file in beside
    ]
    reward = join_rewards(columns["id"], rewards) if beside else columns["reward"]
    return gather_decisions([columns], reward)
