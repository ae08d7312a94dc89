"""Sums, counts and a sample of a decision log, computed in one pass over a Parquet dataset."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_integer, check_number
from torch_softucb.from_logs.candidates import ItemTable, features_by_id, item_table
from torch_softucb.from_logs.stream import LogBatch, LogPart, Source, log_parts, map_parts, part_batches
from torch_softucb.from_logs.sums import user_sums
from torch_softucb.functional.scales import RegressionSums
from torch_softucb.recommend import LoggedDecisions
from torch_softucb.recommend.log.logged_decisions import concatenated
from torch_softucb.rng import stream_key, uniforms

_WHERE = "summarise_log"
_SAMPLE = 10_000  # decisions that are kept
_MOST_ITEMS = 1 << 20  # distinct items that are kept


class LogSummary(NamedTuple):
    """What is needed from a log to learn from it.

    Attributes:
        sums: regression sums of each bandit over the decisions with a reward, of batch shape ``(U,)``, float64.
        names: sorted ids of the U bandits, of shape ``(U,)``; -1 if the log has one bandit without an id.
        decisions: number of decisions, with or without a reward.
        items: features of all items that were shown; None if the features of the candidates were logged.
        sample: decisions drawn uniformly from those with a reward, in the order of the log, for their candidate sets.
    """

    sums: RegressionSums
    names: Tensor  # (U,)
    decisions: int
    items: ItemTable | None
    sample: LoggedDecisions

    @property
    def dim(self) -> int:
        """Number of features d."""
        return self.sums.sum_x.shape[-1]

    @property
    def reward_mean(self) -> float:
        """Mean of the rewards."""
        return float(self.sums.sum_y.sum() / self.sums.num_observations.sum())


def summarise_log(
    source: Source,
    *,
    per_bandit: bool = True,
    sample: int = _SAMPLE,
    seed: int = 0,
    share: tuple[float, float] = (0.0, 1.0),
    engine: str = "local",
) -> LogSummary:
    """Summarise a Parquet dataset that may be larger than memory.

    Memory is needed for the sums (d^2 numbers per bandit), for the sample, and for a few batches of decisions. The result is
    the same with every engine, bit for bit, and the sample depends on the seed and on the number of rows only.

    Args:
        source: a folder of Parquet files, read in the order of their names; or one or several files. The columns are those
            of :func:`~torch_softucb.recommend.read_decisions`.
        per_bandit: separate sums for each bandit; False takes all decisions as those of one.
        sample: largest number of decisions to keep.
        seed: seed of the sample.
        share: first and last row to use, as shares of all rows: ``(0, 0.5)`` is the first half.
        engine: ``local``, or ``ray`` to work on row groups in parallel (``pip install torch_softucb[ray]``).

    Raises:
        ValueError: if a file cannot be read or a value is impossible; the error names the file and the row.
        ImportError: if ray is needed but not installed.

    Example:
        >>> import tempfile, pandas as pd
        >>> path = f"{tempfile.mkdtemp()}/log.parquet"
        >>> pd.DataFrame({"x": [[1.0], [2.0], [3.0]], "arm": [0, 0, 0], "reward": [1.0, 4.0, None]}).to_parquet(path)
        >>> summary = summarise_log(path)
        >>> summary.sums.moment, summary.reward_mean, summary.decisions
        (tensor([[9.]], dtype=torch.float64), 2.5, 3)
    """
    parts = log_parts(_WHERE, source, share=share)
    return _summaries(parts, [len(parts)], per_bandit=per_bandit, sample=sample, seed=seed, engine=engine)[0]


def summarise_shares(
    source: Source, share: float, *, per_bandit: bool = True, seed: int = 0, engine: str = "local"
) -> tuple[LogSummary, LogSummary]:
    """Return the summaries of the first ``share`` of the rows and of all rows, from one pass; see :func:`summarise_log`."""
    check_number(_WHERE, "share", share, low=0.0, high=1.0, open_low=True)
    earlier = log_parts(_WHERE, source, share=(0.0, share))
    parts = earlier + log_parts(_WHERE, source, share=(share, 1.0))
    counts = [len(earlier), len(parts)]
    past, whole = _summaries(parts, counts, per_bandit=per_bandit, sample=_SAMPLE, seed=seed, engine=engine)
    return past, whole


def _summaries(
    parts: list[LogPart], counts: list[int], *, per_bandit: bool, sample: int, seed: int, engine: str
) -> list[LogSummary]:
    """Return a summary of the first n parts for every n of ``counts``."""
    check_integer(_WHERE, "sample", sample, low=1)
    function = partial(_summarise_part, per_bandit=per_bandit, sample=sample, seed=seed)
    summaries, merged = {}, None
    for count, found in enumerate(map_parts(_WHERE, function, parts, engine=engine), 1):
        merged = found if merged is None else _merge(merged, found, sample)
        if count in counts:
            summaries[count] = _finished(merged)
    return [summaries[count] for count in counts]


def _finished(merged: "_Partial") -> LogSummary:
    if not len(merged.keys):
        raise ValueError(f"{_WHERE}: none of the {merged.decisions} decisions has a reward; join the rewards first")
    order = merged.numbers.argsort()
    kept = LoggedDecisions._make(column[order] for column in merged.sample)
    return LogSummary(merged.sums, merged.names, merged.decisions, merged.items, kept)


def summary_in_memory(log: LoggedDecisions) -> LogSummary:
    """Return the summary of a log in memory; its sample has all decisions with a reward."""
    rewarded = log.rewarded
    names, owner = torch.unique(rewarded.bandit, return_inverse=True)
    sums = user_sums(rewarded.x, rewarded.reward, owner, num_users=len(names))
    return LogSummary(sums, names, len(log.id), _items(rewarded), rewarded)


class _Partial(NamedTuple):
    """Summary of some parts; the sample has the decisions with the smallest keys."""

    sums: RegressionSums
    names: Tensor  # (U,)
    decisions: int
    items: ItemTable | None
    sample: LoggedDecisions
    keys: Tensor  # (m,) random number of each decision in the sample
    numbers: Tensor  # (m,) its row in the dataset


def _summarise_part(part: LogPart, *, per_bandit: bool, sample: int, seed: int) -> _Partial:
    merged: _Partial | None = None
    key = stream_key(torch.Generator().manual_seed(seed), "problem", torch.device("cpu"))
    for batch in part_batches(_WHERE, part):
        found = _summarise_batch(batch, key, per_bandit)
        merged = _smallest(found, sample) if merged is None else _merge(merged, found, sample)
    assert merged is not None  # a part has at least one row
    return merged


def _summarise_batch(batch: LogBatch, key: Tensor, per_bandit: bool) -> _Partial:
    numbers = torch.arange(len(batch.log.id)) + batch.number
    arrived = ~batch.log.reward.isnan()
    log, numbers = LoggedDecisions._make(column[arrived] for column in batch.log), numbers[arrived]
    bandit = log.bandit if per_bandit else torch.full_like(log.bandit, -1)
    names, owner = torch.unique(bandit, return_inverse=True)
    keys = uniforms(key, numbers, start=0, count=1, dtype=torch.float64)[0]
    sums = user_sums(log.x, log.reward, owner, num_users=len(names))
    return _Partial(sums, names, len(batch.log.id), _items(log), log, keys, numbers)


def _items(log: LoggedDecisions) -> ItemTable | None:
    return None if log.features.shape[1] else item_table(log)


def _merge_items(first: ItemTable | None, second: ItemTable | None) -> ItemTable | None:
    if first is None or second is None:
        return None
    ids, decisions = torch.cat((first.ids, second.ids)), first.decisions + second.decisions
    if first.features is None or second.features is None:
        changed = second.changed if first.changed is None else first.changed
        return ItemTable(ids[:0], None, decisions, changed)
    merged = features_by_id(ids, torch.cat((first.features, second.features)), decisions=decisions)
    return merged if len(merged.ids) <= _MOST_ITEMS else ItemTable(ids[:0], None, decisions)


def _merge(first: _Partial, second: _Partial, sample: int) -> _Partial:
    if first.sample.x.shape[1] != second.sample.x.shape[1]:
        raise ValueError(
            f"{_WHERE}: all decisions must have features of one length, got {first.sample.x.shape[1]} and "
            f"{second.sample.x.shape[1]}; summarise the files of each model separately"
        )
    names = torch.unique(torch.cat((first.names, second.names)))
    sums = [
        value.new_zeros(len(names), *value.shape[1:])
        .index_copy_(0, torch.searchsorted(names, first.names), value)
        .index_add_(0, torch.searchsorted(names, second.names), other)
        for value, other in zip(first.sums, second.sums, strict=True)
    ]
    both = _Partial(
        RegressionSums(*sums),
        names,
        first.decisions + second.decisions,
        _merge_items(first.items, second.items),
        concatenated((first.sample, second.sample)),
        torch.cat((first.keys, second.keys)),
        torch.cat((first.numbers, second.numbers)),
    )
    return _smallest(both, sample)


def _smallest(found: _Partial, sample: int) -> _Partial:
    """Return the summary with the decisions of the smallest keys: a uniform sample, in whatever order parts are merged."""
    if len(found.keys) <= sample:
        return found
    kept = found.keys.topk(sample, largest=False).indices
    rows = LoggedDecisions._make(column[kept] for column in found.sample)
    return found._replace(sample=rows, keys=found.keys[kept], numbers=found.numbers[kept])
