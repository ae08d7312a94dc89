"""Candidate sets of logged decisions, as logged or reconstructed from the items that were shown."""

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.from_logs._checks import check_chosen_arms
from torch_softucb.recommend import LoggedDecisions

_BLOCK = 1 << 22  # numbers in memory at once: 32 MB in float64
_SAME = 1e-5  # features of an item may differ by this much, relative to its largest: rounding to float32 and back


class CandidateSets(NamedTuple):
    """Candidate sets of n decisions, stored as rows of one table of items.

    Attributes:
        items: features of all items, of shape ``(M, d)``, float64.
        rows: rows of ``items`` that were candidates of each decision, of shape ``(n, K)``, int64; -1 is padding.
        arm: position in ``rows`` of the item that was shown, of shape ``(n,)``, int64.
        known: True for the sets that were offered, False for random ones, which are used for simulation only.
        source: description of where the sets come from, for the report.
        unseen: number of candidates, summed over all sets, that were left out because the log lacks their features.
    """

    items: Tensor  # (M, d)
    rows: Tensor  # (n, K)
    arm: Tensor  # (n,)
    known: bool
    source: str
    unseen: int

    @property
    def fixed(self) -> bool:
        """Whether all decisions have the same candidates."""
        return self.rows.stride(0) == 0 or bool((self.rows == self.rows[:1]).all())

    def sets(self, rows: Tensor | slice) -> tuple[Tensor, Tensor]:  # (m, K, d), (m, K)
        """Return features and mask of the candidates of some decisions."""
        chosen = self.rows[rows]
        return self.items[chosen.clamp(min=0)], chosen >= 0

    def select(self, rows: Tensor | slice) -> "CandidateSets":
        """Return the candidate sets of some decisions; they share the table of items."""
        return self._replace(rows=self.rows[rows], arm=self.arm[rows])


class ItemTable(NamedTuple):
    """Features of every item that was shown.

    Attributes:
        ids: sorted ids of the M items, of shape ``(M,)``: item ids if candidates were logged, else arm numbers.
        features: features of each item when it was first shown, of shape ``(M, d)``; None if they changed later.
        decisions: number of decisions in which they were shown.
        changed: an item whose features changed; None if there is none.
    """

    ids: Tensor  # (M,)
    features: Tensor | None  # (M, d)
    decisions: int
    changed: int | None = None


def item_table(log: LoggedDecisions) -> ItemTable:
    """Return the features of every item that a log has shown."""
    shown = log.candidates.gather(1, log.arm.unsqueeze(-1)).squeeze(-1) if log.candidates.shape[1] else log.arm
    return features_by_id(shown, log.x, decisions=len(log.arm))


def features_by_id(ids: Tensor, x: Tensor, *, decisions: int) -> ItemTable:  # (n,), (n, d)
    """Return the features of every id, or None if an id has had different ones."""
    distinct, row = torch.unique(ids, return_inverse=True)
    numbers = torch.arange(len(ids), device=ids.device)
    items = x[torch.full_like(distinct, len(ids)).scatter_reduce(0, row, numbers, "amin")]
    size = items.abs().amax(-1, keepdim=True)
    other = ((items[row] - x).abs() > _SAME * size[row]).any(-1)
    if not bool(other.any()):
        return ItemTable(distinct, items, decisions)
    return ItemTable(distinct, None, decisions, changed=int(ids[other][0]))


def row_blocks(count: int, row_size: int) -> Iterator[slice]:
    """Cut ``count`` rows of ``row_size`` numbers into slices that bound the memory in use."""
    size = max(1, _BLOCK // row_size)
    return (slice(start, start + size) for start in range(0, count, size))


def candidate_sets(log: LoggedDecisions, *, num_arms: int = 50) -> CandidateSets:
    """Return the candidate sets of a log's decisions, by the first of these rules that applies.

    1. ``features`` were logged: use them.
    2. ``candidates`` were logged, and every item has the same features, up to rounding, whenever it is shown: use those.
       Candidates that were never shown are left out.
    3. Neither was logged, but every arm number has the same features whenever it is shown, at least twice on average:
       assume that all arms are candidates of every decision.
    4. Otherwise: draw sets of ``num_arms`` rows of x at random. They are used for simulation, not for evaluation.

    Args:
        log: decisions, in any order.
        num_arms: size of the random sets.

    Example:
        >>> from torch_softucb.recommend.log.reader import LoggedDecisions
        >>> x, arm, none = torch.tensor([[1.0], [2.0], [1.0], [1.0]]), torch.tensor([4, 7, 4, 4]), torch.zeros(4, 0).long()
        >>> columns = dict.fromkeys(LoggedDecisions._fields, arm) | {"x": x, "candidates": none, "features": none[..., None]}
        >>> sets = candidate_sets(LoggedDecisions(**columns))
        >>> sets.items, sets.arm, sets.source
        (tensor([[1.],
                [2.]]), tensor([0, 1, 0, 0]), 'all arms that were shown')
    """
    check_integer("candidate_sets", "num_arms", num_arms, low=1)
    return sets_from_items(log, None if log.features.shape[1] else item_table(log), num_arms=num_arms)


def sets_from_items(log: LoggedDecisions, items: ItemTable | None, *, num_arms: int = 50) -> CandidateSets:
    """Return candidate sets as :func:`candidate_sets` does, with the items of a longer log.

    Args:
        log: decisions, in any order.
        items: table of the items that the longer log has shown; not used if ``features`` were logged.
        num_arms: size of the random sets.
    """
    if log.features.shape[1]:
        return _from_features(log)
    if items is None or items.features is None:
        if log.candidates.shape[1] and items is not None and items.changed is not None:
            warnings.warn(
                f"candidate_sets: item {items.changed} was shown with different features, so the logged candidates are not "
                "enough; log features= of all candidates. Random rows of x are used instead, without evaluation",
                stacklevel=2,
            )
        return _random_sets(log, num_arms)
    if log.candidates.shape[1]:
        return _from_item_ids(log, items.ids, items.features)
    if 2 * len(items.ids) > items.decisions:
        return _random_sets(log, num_arms)
    return _from_arm_numbers(log, items.ids, items.features)


def _from_features(log: LoggedDecisions) -> CandidateSets:
    n, k, d = log.features.shape
    mask = log.mask[:, :k]
    check_chosen_arms("candidate_sets", log.arm, mask, log.features, log.x)
    same = bool((log.features == log.features[:1]).all())
    rows = torch.arange(k, device=mask.device).expand(n, -1) if same else torch.arange(n * k, device=mask.device).view(n, k)
    if not bool(mask.all()):
        rows = rows.masked_fill(~mask, -1)
    items = log.features[0] if same else log.features.reshape(-1, d)
    return CandidateSets(items, rows, log.arm, known=True, source="logged features", unseen=0)


def _from_item_ids(log: LoggedDecisions, ids: Tensor, items: Tensor) -> CandidateSets:
    check_chosen_arms("candidate_sets", log.arm, log.mask)
    row = torch.searchsorted(ids, log.candidates.contiguous()).clamp(max=len(ids) - 1)
    usable = log.mask & (ids[row] == log.candidates)
    rows, unseen = row.masked_fill(~usable, -1), int((log.mask & ~usable).sum())
    source = "logged candidates, with the features that they were shown with"
    return CandidateSets(items, rows, log.arm, known=True, source=source, unseen=unseen)


def _from_arm_numbers(log: LoggedDecisions, ids: Tensor, items: Tensor) -> CandidateSets:
    rows = torch.arange(len(items), device=ids.device).expand(len(log.arm), -1)
    arm = torch.searchsorted(ids, log.arm)
    return CandidateSets(items, rows, arm, known=True, source="all arms that were shown", unseen=0)


def _random_sets(log: LoggedDecisions, num_arms: int) -> CandidateSets:
    n = len(log.arm)
    rows = torch.randint(n, (n, num_arms), generator=torch.Generator().manual_seed(0)).to(log.arm.device)
    rows[:, 0] = torch.arange(n, device=rows.device)
    source = f"{num_arms} rows of x drawn at random"
    return CandidateSets(log.x, rows, torch.zeros_like(log.arm), known=False, source=source, unseen=0)
