"""Decision ids: unique, and known again after a restart."""

import copy

import pytest
import torch
from torch import nn

from tests.recommend.cases import head, requests
from torch_softucb import SoftUCBHead, SoftUCBPolicy
from torch_softucb.policies.guard import Guard
from torch_softucb.recommend.ids import DecisionIds

D = torch.double


def _ids(seed, replica=0):
    return DecisionIds(seed, replica=replica, guard=Guard(), device=torch.device("cpu"))


def test_draws_depend_on_seed_and_id_alone():
    user, items = requests(40, 6)
    whole, halves, other = head(seed=5), head(seed=5), head(seed=6)
    at_once = whole.serve(whole(user, items)).arm
    by_parts = torch.cat([halves.serve(halves(user[i : i + 7], items[i : i + 7])).arm for i in range(0, 40, 7)])
    assert at_once.equal(by_parts)
    assert not at_once.equal(other.serve(other(user, items)).arm)


def test_replicas_do_not_explore_in_step():
    first = head()
    second = copy.deepcopy(first)
    user, items = requests(60, 6)
    second.reseed()
    one, two = first.serve(first(user, items)), second.serve(second(user, items))
    assert not one.arm.equal(two.arm)
    assert not set(one.id.tolist()) & set(two.id.tolist())
    second.reseed(3, replica=9)
    assert second.serve(second(user, items)).id[0] == (9 << 34) + 60
    assert second.feedback(two.id, torch.ones(60, dtype=D)) == 60  # those from before are still waited for


def test_ids_are_never_given_twice():
    ours = SoftUCBHead(nn.Identity(), SoftUCBPolicy(3))
    features = torch.randn(3, 5, 3)
    first = ours.serve(ours(features))
    ours.feedback(first.id, torch.ones(3))
    ours.reseed(5, replica=0)
    second = ours.serve(ours(features))
    ours.reseed(5, replica=8)
    third = ours.serve(ours(features))
    assert len({*first.id.tolist(), *second.id.tolist(), *third.id.tolist()}) == 9
    assert ours.feedback(torch.cat((first.id, second.id, third.id)), torch.ones(9), on_repeat="ignore") == 6
    twin = SoftUCBHead(nn.Identity(), SoftUCBPolicy(3))
    twin.load_state_dict(ours.state_dict())
    assert twin.feedback(first.id, torch.ones(3), on_repeat="ignore") == 0
    for replica in (-1, 1 << 28):
        with pytest.raises(ValueError, match="replica must be"):
            ours.reseed(replica=replica)


def test_an_id_is_known_if_its_replica_and_its_counter_are():
    ids = _ids(0)
    assert not ids.has_given(0)
    ids.continue_after((5 << 34) + 9)  # given by replica 5, before a restart
    for decision, known in {
        9: False,  # replica 0 has issued nothing
        (5 << 34) + 9: True,
        (5 << 34) + 10: False,
        6 << 34: False,
        -1: False,
    }.items():
        assert ids.has_given(decision) == known
    ids.continue_after(3)  # an older id: the counter does not go back
    assert ids.replicas[:, 0].tolist() == [5, 0]
    assert int(ids.stream[1]) == 10
    assert (ids.has_given(3), ids.has_given(4)) == (True, False)
    ids.continue_after((5 << 34) + 20)
    assert not ids.has_given(4)  # an id that replica 0 has not reached, though replica 5 is past it
    assert ids.has_given((5 << 34) + 20)


def test_the_largest_id_is_a_positive_int64():
    ids = _ids(0)
    ids.reseed(0, replica=(1 << 28) - 1)
    ids.continue_after(((1 << 28) - 1 << 34) + (1 << 34) - 2)
    assert ids._next_ids(1)[0] == (1 << 62) - 1


def test_ids_come_back_with_any_number_of_replicas():
    ids, other = _ids(0), _ids(1)
    for replica in (3, 1, 4):
        ids.continue_after((replica << 34) + 7)
    assert ids.replicas[:, 0].tolist() == [3, 1, 4]
    other.load_state_dict(ids.state_dict())
    assert other.replicas.equal(ids.replicas)
    assert other.stream.equal(ids.stream)


def test_a_replica_number_without_ids_left_is_replaced():
    """The last ids of replica 5, then those of a new number; never those of replica 6."""
    ours = head(replica=5)
    user, items = requests(4, 5)
    ours.continue_after((6 << 34) - 6)
    last = ours.serve(ours(user, items))
    assert last.id.tolist() == list(range((6 << 34) - 5, (6 << 34) - 1))
    after = ours.serve(ours(user, items))
    replica = int(after.id[0]) >> 34
    assert replica not in (5, 6)
    assert after.id.tolist() == list(range(replica << 34, (replica << 34) + 4))
    assert all(ours.has_given(i) for i in (*last.id.tolist(), *after.id.tolist()))
    twin = head()
    twin.load_state_dict(ours.state_dict())
    assert twin.feedback(torch.cat((last.id, after.id)), torch.ones(8, dtype=D)) == 8
    ours.reseed(replica=5)
    assert not set(ours.serve(ours(user, items)).id.tolist()) & {*last.id.tolist(), *after.id.tolist()}
