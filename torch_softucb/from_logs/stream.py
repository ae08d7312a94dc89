"""Decisions of a Parquet dataset in batches, so that a log may be larger than memory.

A dataset is cut into parts, one row group each. A function is applied to every part, in this process or by Ray Data, and its
results are merged in the order of the dataset. So the result does not depend on the engine, not even by rounding.
"""

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from torch_softucb.checks import check_choice
from torch_softucb.recommend import LoggedDecisions
from torch_softucb.recommend.log._checks import check_pyarrow
from torch_softucb.recommend.log.logged_decisions import check_decision_rows, gather_decisions, with_defaults

ENGINES = ("local", "ray")
_ROWS = 1 << 15  # rows per batch
_BATCH_BYTES = 1 << 28  # of the tensors of a batch

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]  # a folder of Parquet files, or files
Result = TypeVar("Result")


class LogPart(NamedTuple):
    """Rows of one row group.

    Attributes:
        path: the Parquet file.
        group: row group in the file.
        first: number of rows of the file before the group.
        number: number of rows of the dataset before the group.
        start: first row of the group to read.
        stop: row of the group after the last one to read.
    """

    path: str
    group: int
    first: int
    number: int
    start: int
    stop: int


class LogBatch(NamedTuple):
    """Consecutive decisions.

    Attributes:
        log: the decisions.
        number: number of decisions of the dataset before them.
    """

    log: LoggedDecisions
    number: int


def log_parts(
    where: str,
    source: Source,
    *,
    share: tuple[float, float] = (0.0, 1.0),
) -> list[LogPart]:
    """Return the parts of a dataset, in order.

    Args:
        where: function that error messages begin with.
        source: a folder with Parquet files, read in the order of their names; or one or several files.
        share: first and last row to read, as shares of all rows.
    """
    check_pyarrow(where)
    from torch_softucb.recommend.log.foreign_table import USED_COLUMNS

    if not 0 <= share[0] < share[1] <= 1:
        raise ValueError(f"{where}: share must be two increasing numbers in [0, 1], got {share}")
    groups: list[tuple[str, int, int]] = []
    columns: dict[Path, set[str]] = {}
    for file in _files(where, source):
        sizes, names = _group_sizes(where, file)
        groups += [(str(file), i, rows) for i, rows in enumerate(sizes)]
        columns[file] = {name for name in names if name in USED_COLUMNS}
        first = next(iter(columns))
        if columns[file] != columns[first]:
            raise ValueError(
                f"{where}: all files must have the same columns, got {', '.join(sorted(columns[first]))} in {first} and "
                f"{', '.join(sorted(columns[file]))} in {file}; learn from the files of each format separately"
            )
    total = sum(rows for _, _, rows in groups)
    begin, end = (round(part * total) for part in share)
    parts, number, firsts = [], 0, dict.fromkeys((path for path, _, _ in groups), 0)
    for path, group, rows in groups:
        start, stop = max(begin - number, 0), min(end - number, rows)
        if start < stop:
            parts.append(LogPart(path, group, firsts[path], number, start, stop))
        number += rows
        firsts[path] += rows
    if not parts:
        raise ValueError(f"{where}: at least one decision is needed, got none in {source}")
    return parts


def _files(where: str, source: Source) -> list[Path]:
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    files = [file for path in map(Path, given) for file in (sorted(path.rglob("*.parquet")) if path.is_dir() else [path])]
    if not files:
        raise ValueError(f"{where}: {source} has no Parquet files; give a folder with some, or their paths")
    for file in files:
        if file.name.endswith(".rewards.parquet"):
            raise ValueError(
                f"{where}: {file} holds the rewards of a DecisionLog, which a single pass cannot join; read the log with "
                "read_decisions, or write a table with a column reward"
            )
    return files


def _group_sizes(where: str, path: Path) -> tuple[list[int], list[str]]:
    """Return the number of rows of each row group, and the names of the columns."""
    import pyarrow.parquet as pq

    from torch_softucb.recommend.log.parquet_bytes import FAILURES

    try:
        file = pq.ParquetFile(path)
        return [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)], file.schema_arrow.names
    except FAILURES as error:
        raise _unreadable(f"{where}: {path}", error) from error


def _unreadable(where: str, error: Exception) -> ValueError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ValueError(f"{where} cannot be read as Parquet; cut short or another format? ({reason})")


def part_batches(where: str, part: LogPart) -> Iterator[LogBatch]:
    """Yield the decisions of a part, checked, in batches of limited size; errors name the file and the row."""
    import pyarrow.parquet as pq

    from torch_softucb.recommend.log.foreign_table import known_columns
    from torch_softucb.recommend.log.parquet_bytes import FAILURES

    where, at = f"{where}: {part.path}", 0
    try:
        file = pq.ParquetFile(part.path, page_checksum_verification=True)
        names = known_columns(where, file.schema_arrow, ("x", "arm", "reward"))
        for batch in file.iter_batches(_ROWS, row_groups=[part.group], columns=names, use_threads=False):
            low, high = max(part.start - at, 0), min(part.stop - at, batch.num_rows)
            if low < high:
                first, number = part.first + at + low, part.number + at + low
                yield LogBatch(_decisions(f"{where}, rows from {first}", batch.slice(low, high - low), number), number)
            at += batch.num_rows
    except FAILURES as error:
        if str(error).startswith(where):
            raise
        raise _unreadable(where, error) from error


def _decisions(where: str, batch: Any, number: int) -> LoggedDecisions:
    from torch_softucb.recommend.log.foreign_table import table_columns

    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns = table_columns(arrays, where, _BATCH_BYTES)
    log = gather_decisions([with_defaults(columns, first=number)], columns["reward"])
    check_decision_rows(where, log)
    return log


def map_parts(
    where: str, function: Callable[[LogPart], Result], parts: Sequence[LogPart], *, engine: str = "local"
) -> Iterator[Result]:
    """Yield the result of a function for every part, in order.

    Args:
        where: function that error messages begin with.
        function: called with one part; ray needs a module's function, or a ``functools.partial`` of one.
        parts: parts of a dataset.
        engine: ``local``, one part after the other in this process; or ``ray``, by Ray Data in the processes of the running
            Ray cluster, or of one that is started on this machine.
    """
    check_choice(where, "engine", engine, ENGINES)
    if engine == "local":
        yield from map(function, parts)
        return
    if importlib.util.find_spec("ray") is None:
        raise ImportError(f"{where}: engine='ray' needs ray, which is not installed; use `pip install torch_softucb[ray]`")
    yield from _map_with_ray(function, parts)


def _map_with_ray(function: Callable[[LogPart], Result], parts: Sequence[LogPart]) -> Iterator[Result]:
    ray: Any = importlib.import_module("ray")
    data: Any = importlib.import_module("ray.data")
    if not ray.is_initialized():
        ray.init(include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
    rows = data.from_items([part._asdict() for part in parts], override_num_blocks=len(parts))
    rows.context.execution_options.preserve_order = True
    rows.context.enable_progress_bars = False
    for row in rows.map(partial(_call, function)).iter_rows():
        done: _Done = row["done"]
        if done.error is not None:
            raise done.error
        yield done.result


class _Done:
    """Result of a part, or its exception, which Ray Data would replace by another; a tuple would become an array."""

    def __init__(self, result: Any = None, error: Exception | None = None) -> None:
        self.result, self.error = result, error


def _call(function: Callable[[LogPart], Result], row: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(1)
    try:
        return {"done": _Done(function(LogPart(**row)))}
    except Exception as error:
        return {"done": _Done(error=error)}
