"""Candidate sets of a log: four ways to find them, contradictions in the log, selecting decisions."""

import pytest
import torch

from tests.from_logs.cases import D, make_log, random_log
from torch_softucb.from_logs.candidates import _BLOCK, candidate_sets, row_blocks


def test_candidates_by_all_four_ways(seeded):
    g = seeded(0)
    items = torch.randn(9, 3, dtype=D, generator=g)
    offer = torch.stack([torch.randperm(8, generator=g)[:4] for _ in range(200)])  # item 8 is never on offer
    arm = torch.randint(4, (200,), generator=g)
    arm[offer.gather(1, arm[:, None])[:, 0] == 7] = 0  # item 7 is never shown, but for the first place
    shown = offer.gather(1, arm[:, None])[:, 0]
    keep = shown != 7
    offer, arm, shown = offer[keep], arm[keep], shown[keep]
    x, reward = items[shown], torch.zeros(len(arm), dtype=D)
    for way in (
        make_log(x, arm, reward, candidates=offer, features=items[offer]),
        make_log(x, arm, reward, candidates=offer),
    ):
        sets = candidate_sets(way)
        arms, mask = sets.sets(slice(0, 50))
        assert sets.known
        assert arms[mask].equal(items[offer[:50]][mask])
        assert arms[torch.arange(50), sets.arm[:50]].equal(x[:50])
    assert sets.unseen == (offer == 7).sum()
    assert mask.equal(offer[:50] != 7)
    places = candidate_sets(make_log(x, shown, reward))  # arm numbers of a fixed list
    assert places.fixed
    assert places.items.equal(items[:7])
    assert places.items[places.arm].equal(x)
    moving = candidate_sets(make_log(x + torch.arange(len(x))[:, None], arm, reward), num_arms=6)  # x always differs
    assert not moving.known
    assert moving.rows.shape == (len(x), 6)
    fixed = candidate_sets(
        make_log(x, shown, reward, candidates=torch.arange(9).expand(len(x), -1), features=items.expand(len(x), -1, -1))
    )
    assert fixed.fixed
    assert fixed.items.equal(items)


def test_logs_that_contradict_themselves_are_named(seeded):
    log, _ = random_log(20, 4, 3, seeded)
    with pytest.raises(ValueError, match="features must have x at position arm, got another vector in row 0"):
        candidate_sets(log._replace(arm=(log.arm + 1) % 4))
    with pytest.raises(ValueError, match=r"arm must be in \[0, 4\), got 9"):
        candidate_sets(log._replace(arm=log.arm + 9 - log.arm.max()))
    with pytest.raises(ValueError, match="arm must be an allowed candidate"):
        candidate_sets(log._replace(candidates=torch.full_like(log.candidates, -1)))


def test_selected_decisions_keep_their_candidates(seeded):
    log, _ = random_log(20, 4, 3, seeded)
    sets = candidate_sets(log)
    for rows in (slice(5, 9), torch.arange(20) % 3 == 0):
        part = sets.select(rows)
        arms, mask = part.sets(slice(None))
        assert arms.equal(log.features[rows])
        assert mask.all()
        assert part.arm.equal(log.arm[rows])


def test_arms_seen_once_are_not_taken_for_a_fixed_list(seeded):
    """Every decision has its own arm number: a list of all of them was never offered."""
    x = torch.randn(10, 3, dtype=D, generator=seeded(0))
    assert not candidate_sets(make_log(x, torch.arange(10), x.sum(-1)), num_arms=4).known


@pytest.mark.parametrize(("count", "row_size"), [(10, 1), (10, _BLOCK // 3), (3, 10 * _BLOCK), (0, 5)])
def test_blocks_cover_all_rows_once_within_the_limit(count, row_size):
    blocks = [range(count)[block] for block in row_blocks(count, row_size)]
    assert [row for block in blocks for row in block] == list(range(count))
    assert all(len(block) * row_size <= _BLOCK or len(block) == 1 for block in blocks)


def _by_item(seeded, change):
    """Logs of 12 items, four offered at a time, in which the features of one decision are changed."""
    g = seeded(0)
    items = torch.randn(12, 3, dtype=torch.double, generator=g)
    candidates = torch.rand(400, 12, generator=g).argsort(-1)[:, :4]
    arm = torch.randint(4, (400,), generator=g)
    x = items[candidates[torch.arange(400), arm]]
    x[7] += change
    return make_log(x, arm, x.sum(-1), candidates=candidates), int(candidates[7, arm[7]])


def test_features_of_an_item_may_differ_by_rounding(seeded):
    log, _ = _by_item(seeded, 1e-7)
    assert candidate_sets(log).known


def test_an_item_whose_features_change_is_named(seeded):
    log, item = _by_item(seeded, 0.1)
    with pytest.warns(UserWarning, match=f"item {item} was shown with different features, .*features= of all candidates"):
        assert not candidate_sets(log).known
