"""Entries that wait for a commit."""

import torch

from torch_softucb.recommend import Served
from torch_softucb.recommend.log.codec import Entry, decode, encode_rewards
from torch_softucb.recommend.log.queue import Queued, encoded


def _entry(id, version=0):
    served = Served(torch.tensor([id]), torch.tensor([0]), torch.tensor([0.5]), torch.ones(1, 2), None, None, None, None, 3)
    return Queued(Entry(served, version, None, None, None), [id], 1, id)


def test_consecutive_decisions_of_one_layout_share_a_record_and_the_order_stays():
    rewards = Queued(encode_rewards(torch.tensor([1]), torch.tensor([2.0])), [], 1, 9)
    records = [
        decode(record) for record in encoded([_entry(1), _entry(2), rewards, rewards, _entry(3), _entry(4, version=1)])
    ]
    assert [kind for kind, _ in records] == ["decisions", "rewards", "rewards", "decisions", "decisions"]
    assert [columns["id"].tolist() for _, columns in records] == [[1, 2], [1], [1], [3], [4]]
    assert records[-1][1]["version"].tolist() == [1]
