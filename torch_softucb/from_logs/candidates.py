"""What a log's decisions could choose from: logged with them, or found again from what was shown."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.from_logs._checks import check_chosen
from torch_softucb.recommend import LoggedDecisions


class Offered(NamedTuple):
    """Candidate sets of n decisions as rows of one table of items."""

    items: Tensor  # (M, d) float64
    rows: Tensor  # (n, K) int64 rows of items; -1: no such candidate
    arm: Tensor  # (n,) int64 place in `rows` of what was shown
    known: bool  # the sets that were decided on; False: made up, for simulation alone
    source: str  # where they come from, in words
    unseen: int  # candidates, of all sets together, that were left out, for their features are not in the log

    @property
    def fixed(self) -> bool:
        """Is one set offered in every decision?"""
        return self.rows.stride(0) == 0 or bool((self.rows == self.rows[:1]).all())

    def sets(self, rows: Tensor | slice) -> tuple[Tensor, Tensor]:  # (m, K, d), (m, K)
        """Features and mask of some decisions."""
        chosen = self.rows[rows]
        return self.items[chosen.clamp(min=0)], chosen >= 0


def offered_items(log: LoggedDecisions, *, num_arms: int = 50) -> Offered:
    """Candidate sets of a log's decisions, by the first way that works.

    1. ``features`` were logged: as they are. 2. ``candidates`` were logged and an item has the same features whenever it is
    shown: from what was shown. 3. Nothing was logged, but an arm number has the same features whenever it is shown: all arms
    that were shown, on offer in every decision. 4. Else: sets of ``num_arms`` rows of x drawn at random, which serve to
    simulate, not to evaluate.

    Example:
        >>> from torch_softucb.recommend.log.reader import LoggedDecisions
        >>> x, arm, none = torch.tensor([[1.0], [2.0], [1.0], [1.0]]), torch.tensor([4, 7, 4, 4]), torch.zeros(4, 0).long()
        >>> columns = dict.fromkeys(LoggedDecisions._fields, arm) | {"x": x, "candidates": none, "features": none[..., None]}
        >>> found = offered_items(LoggedDecisions(**columns))
        >>> found.items, found.arm, found.source
        (tensor([[1.],
                [2.]]), tensor([0, 1, 0, 0]), 'the arms that were shown')
    """
    check_integer("offered_items", "num_arms", num_arms, low=1)
    n = len(log.arm)
    if log.features.shape[1]:
        return _logged(log)
    if log.candidates.shape[1]:
        check_chosen("offered_items", log.arm, log.mask)
        shown = log.candidates.gather(1, log.arm.unsqueeze(-1)).squeeze(-1)
        names, items, at = _table(shown, log.x)
        if items is not None:
            place = torch.searchsorted(names, log.candidates).clamp(max=len(names) - 1)
            there = log.mask & (names[place] == log.candidates)
            rows, unseen = place.masked_fill(~there, -1), int((log.mask & ~there).sum())
            return Offered(items, rows, log.arm, True, "candidates by the features that they were shown with", unseen)
    else:
        _, items, at = _table(log.arm, log.x)
        if items is not None and 2 * len(items) <= n:
            every = torch.arange(len(items), device=at.device).expand(n, -1)
            return Offered(items, every, at, True, "the arms that were shown", 0)
    drawn = torch.randint(n, (n, num_arms), generator=torch.Generator().manual_seed(0)).to(log.arm.device)
    drawn[:, 0] = torch.arange(n, device=drawn.device)
    return Offered(log.x, drawn, torch.zeros_like(log.arm), False, f"{num_arms} rows of x drawn at random", 0)


def _logged(log: LoggedDecisions) -> Offered:
    n, k, d = log.features.shape
    mask = log.mask[:, :k]
    check_chosen("offered_items", log.arm, mask, log.features, log.x)
    same = bool((log.features == log.features[:1]).all())
    rows = torch.arange(k, device=mask.device).expand(n, -1) if same else torch.arange(n * k, device=mask.device).view(n, k)
    if not bool(mask.all()):
        rows = rows.masked_fill(~mask, -1)
    return Offered(log.features[0] if same else log.features.reshape(-1, d), rows, log.arm, True, "logged features", 0)


def _table(names: Tensor, x: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:  # (n,), (n, d) -> (M,), (M, d), (n,)
    """Features of every name, and each row's place; None where one name has had different features."""
    unique, at = torch.unique(names, return_inverse=True)
    items = x.new_empty(len(unique), x.shape[1])
    items[at] = x
    return unique, (items if bool((items[at] == x).all()) else None), at
