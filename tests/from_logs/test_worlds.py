"""Worlds of a log: fixed arms stay fixed, changing sets are those of the log, long logs are thinned out."""

import pytest
import torch

from tests.from_logs.cases import D
from torch_softucb.from_logs import worlds
from torch_softucb.from_logs.candidates import CandidateSets
from torch_softucb.from_logs.worlds import make_worlds, offered_sets
from torch_softucb.problems.contextual import ContextualProblem
from torch_softucb.rng import stream_key


def _sets(n, k, m, g, *, masked=False):
    rows = torch.stack([torch.randperm(m, generator=g)[:k] for _ in range(n)])
    if masked:
        rows[::2, -1] = -1
    items = torch.randn(m, 3, dtype=D, generator=g)
    return CandidateSets(items, rows, torch.zeros(n, dtype=torch.int64), known=True, source="", unseen=0)


def test_fixed_sets_give_plain_problems(seeded):
    sets = _sets(1, 4, 6, seeded(0))
    rows = torch.cat((sets.rows, torch.tensor([[-1]])), dim=1)
    fixed = sets._replace(rows=rows.expand(9, -1))
    items, offered = offered_sets(fixed, stream_key(seeded(0), "problem", torch.device("cpu")), start=0)
    assert offered.equal(rows)
    theta = torch.randn(2, 3, dtype=D, generator=seeded(1))
    world = make_worlds(items, offered, theta, offset=1.5, noise=0.2, delay=0)
    assert not isinstance(world, ContextualProblem)
    assert world.mask.tolist() == [True] * 4 + [False]
    torch.testing.assert_close(world.means[:, :4], 1.5 + theta @ sets.items[sets.rows[0]].T)
    late = make_worlds(items, offered, theta, offset=0.0, noise=0.2, delay=3)
    assert isinstance(late, ContextualProblem)
    assert late.sets.equal(rows)


def test_small_pools_keep_all_sets(seeded):
    sets = _sets(20, 4, 6, seeded(0), masked=True)
    items, offered = offered_sets(sets, stream_key(seeded(0), "problem", torch.device("cpu")), start=0)
    assert items is sets.items
    assert offered is sets.rows


def test_large_pools_take_some_of_the_sets(seeded, monkeypatch):
    monkeypatch.setattr(worlds, "_ITEMS", 40)
    sets = _sets(300, 4, 500, seeded(0), masked=True)
    key = stream_key(seeded(0), "problem", torch.device("cpu"))
    items, offered = offered_sets(sets, key, start=5)
    assert offered.shape == (10, 4)
    assert len(items) <= 40
    logged = {
        tuple(row) for row in sets.items[sets.rows.clamp(min=0)].where(sets.rows.unsqueeze(-1) >= 0, 0).flatten(1).tolist()
    }
    for row in items[offered.clamp(min=0)].where(offered.unsqueeze(-1) >= 0, 0).flatten(1).tolist():
        assert tuple(row) in logged
    again = offered_sets(sets, key, start=5)
    assert again[1].equal(offered)
    other = offered_sets(sets, stream_key(seeded(1), "problem", torch.device("cpu")), start=5)
    assert not torch.equal(other[0][:5], items[:5])


@pytest.mark.parametrize("noise", [0.3, torch.tensor([-0.5, 0.5], dtype=D)])
def test_changing_sets_give_contextual_problems(noise, seeded):
    sets = _sets(20, 4, 6, seeded(0))
    theta = torch.randn(2, 3, dtype=D, generator=seeded(1))
    world = make_worlds(sets.items, sets.rows, theta, offset=0.5, noise=noise, delay=torch.tensor([0.5, 0.5]))
    assert world.slots == 4
    assert world.reward == ("gaussian" if isinstance(noise, float) else "empirical")
    assert world.max_delay == 1
    torch.testing.assert_close(world.means, 0.5 + theta @ sets.items.T)
