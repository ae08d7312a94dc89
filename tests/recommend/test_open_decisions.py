"""Decisions that wait for their reward: how many may, and in which order they are listed."""

import pytest
import torch

from tests.recommend.cases import head, requests, same_state, state_of
from torch_softucb.errors import OpenDecisionsError

D = torch.double


def test_a_head_refuses_to_serve_when_too_many_decisions_are_open():
    ours = head(max_open=6)
    user, items = requests(4, 5)
    first = ours.serve(ours(user, items))
    before, decision = state_of(ours), ours(user, items)
    with pytest.raises(OpenDecisionsError, match=r"at most 6 decisions may wait .* 4 do and 4 would be added"):
        ours.serve(decision)
    with pytest.raises(OpenDecisionsError, match="restore_open: at most 6"):
        ours.restore_open(first.id + (3 << 34), first.x, torch.full((4,), -1))
    assert same_state(before, state_of(ours))
    ours.drop(ours.open_decisions[:2])
    second = ours.serve(decision)
    assert ours.open_decisions.tolist() == [2, 3, *second.id.tolist()]
    with pytest.raises(ValueError, match="max_open must be"):
        head(max_open=0)


def test_the_oldest_decisions_come_first_under_any_replica_number():
    ours = head(replica=9)
    shown = []
    for replica in (9, 2, 5):
        ours.reseed(replica=replica)
        shown += ours.serve(ours(*requests(2, 4))).id.tolist()
    assert ours.open_decisions.tolist() == shown
    assert ours.state_dict()["pending.id"].tolist() == shown


def test_a_decision_is_not_restored_twice():
    ours, other = head(), head(replica=3)
    served = other.serve(other(*requests(2, 4)))
    with pytest.raises(ValueError, match="id must hold different decisions"):
        ours.restore_open(served.id[[0, 0]], served.x, torch.full((2,), -1))
    assert not len(ours.open_decisions)


def test_heads_that_share_a_log_are_restored_each_with_its_own_count():
    """Decisions of two heads alternate, and one of them is ahead: none is taken for one that was issued before."""
    ours, fast, slow = head(replica=1), head(replica=2), head(replica=3)
    for _ in range(3):
        for other, count in ((fast, 9), (slow, 2)):
            served = other.serve(other(*requests(count, 4)))
            assert ours.restore_open(served.id, served.x, torch.full((count,), -1)).all()
    assert len(ours.open_decisions) == 33
