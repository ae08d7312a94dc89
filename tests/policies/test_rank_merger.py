"""RankMerger with gloo: exact counts, equal bits, nothing counted twice, refusals in every process."""

import threading

import pytest
import torch
from torch import nn

from tests.processes import in_processes
from torch_softucb import LinUCB, RankMerger, SoftUCBHead, SoftUCBPolicy
from torch_softucb.policies import rank_merger

D = torch.float64
MERGE = """
import json
from torch import nn
from torch_softucb import LinUCB, RankMerger, SoftUCBHead, SoftUCBPolicy
from torch_softucb.policies import rank_merger
rank_merger._CHUNK = 60  # two bandits at a time

def observe(model, seed, share):
    generator = torch.Generator().manual_seed(seed)
    x, reward = torch.randn(24, 3, generator=generator).double(), torch.randn(24, generator=generator).double()
    bandit = torch.arange(24) % 6
    model["one"].update(x[share], reward[share])
    model["many"].policy.update(x[share], reward[share], bandit=bandit[share])

def make():
    many = LinUCB(3, dtype=torch.float64)
    many.reset(batch_shape=(6,))
    return nn.ModuleDict({"one": SoftUCBPolicy(3, dtype=torch.float64), "many": SoftUCBHead(nn.Identity(), many)})

model, alone = make(), make()
merger, equal = RankMerger(model), []
for step in range(5):
    observe(model, step, slice(rank, None, world))
    observe(alone, step, slice(None))
    merger.merge()
    if step == 2:
        merger.merge()  # nothing new
ours, want = model.state_dict(), alone.state_dict()
result = {"ours": ours, "want": want}
"""


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 2, 4])
def test_every_process_knows_what_one_process_would_know(world):
    ranks = in_processes(MERGE, world)
    for result in ranks:
        for name, value in ranks[0]["ours"].items():
            assert torch.equal(result["ours"][name], value) or name.split(".")[-1] in ("stream", "replicas"), name
    layout = LinUCB(3).layout
    for name in ("one.statistics", "many.policy.statistics"):
        got, want = (layout.unpack(ranks[0][which][name]) for which in ("ours", "want"))
        assert torch.equal(got.num_observations, want.num_observations)
        torch.testing.assert_close(got.V, want.V, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(got.b, want.b, rtol=1e-12, atol=1e-12)


REFUSE = """
from torch_softucb import LinUCB, RankMerger

def refused(call):
    try:
        call()
    except ValueError as error:
        return str(error)
    return "taken"

other = LinUCB(3)
if rank == 1:
    other.update(torch.ones(3), torch.tensor(1.0))
policy = LinUCB(3)
policy.update(torch.eye(3), torch.ones(3))
merger = RankMerger(policy)
policy.update(torch.eye(3), torch.ones(3))
if rank == 1:
    policy.reset()
before = policy.statistics.clone()
reset = refused(merger.merge)
kept = torch.equal(policy.statistics, before)
if rank == 0:
    policy.reset(batch_shape=(2,))
result = {"start": refused(lambda: RankMerger(other)), "reset": reset, "kept": kept, "size": refused(merger.merge)}
"""


@pytest.mark.slow
def test_what_cannot_be_merged_is_refused_by_all_processes_alike():
    first, second = in_processes(REFUSE, 2)
    assert first == second
    assert "ranks [1] differ from rank 0" in first["start"]
    assert "replica 1 has lost some" in first["reset"]
    assert first["kept"]
    assert "the batch of bandits must not change between merges, but did in ranks [0]" in first["size"]


def test_without_a_process_group_a_merge_does_nothing():
    policy = SoftUCBPolicy(2)
    merger = RankMerger(policy)
    policy.update(torch.ones(2), torch.tensor(1.0))
    before = policy.statistics.clone()
    merger.merge()
    assert merger.world_size == 1
    assert torch.equal(policy.statistics, before)


def test_modules_that_cannot_be_merged_are_refused():
    with pytest.raises(ValueError, match="module must contain a policy, got Linear without one"):
        RankMerger(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="coldness='lagged' keeps a memory"):
        RankMerger(SoftUCBPolicy(2, coldness="lagged"))
    with pytest.raises(ValueError, match=r"discount must be 1 to merge statistics, got 0.9 in head"):
        RankMerger(SoftUCBHead(nn.Identity(), LinUCB(2), discount=0.9))


class _ThreadGroup:
    """Process group in one process: each rank is a thread."""

    def __init__(self, world):
        self.world, self.barrier = world, threading.Barrier(world, timeout=30)
        self.rank, self.given = threading.local(), [None] * world
        self.is_available = self.is_initialized = lambda: True

    def get_world_size(self, group):
        return self.world

    def _exchange(self, value):
        self.given[self.rank.number] = value.clone()
        self.barrier.wait()
        values = [value.clone() for value in self.given]
        self.barrier.wait()
        return values

    def all_gather(self, out, value, group):
        for target, source in zip(out, self._exchange(value), strict=True):
            target.copy_(source)

    def broadcast(self, value, group_src, group):
        value.copy_(self._exchange(value)[group_src])

    def run(self, function):
        """Return the results of ``function(rank)``, or the errors that it raised, in the order of the ranks."""
        results = [None] * self.world

        def call(rank):
            self.rank.number = rank
            try:
                results[rank] = function(rank)
            except ValueError as error:
                results[rank] = error

        threads = [threading.Thread(target=call, args=(rank,)) for rank in range(self.world)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results


@pytest.fixture(params=[2, 3])
def ranks(request, monkeypatch):
    group = _ThreadGroup(request.param)
    monkeypatch.setattr(rank_merger, "dist", group)
    return group


@pytest.mark.parametrize("chunk", [1, 60, 1 << 22])
def test_merged_statistics_are_those_of_all_observations(ranks, chunk, monkeypatch):
    """Five bandits in slices of one, of some and of all; the second merge adds only what is new."""
    monkeypatch.setattr(rank_merger, "_CHUNK", chunk)

    def observations(rank, step):
        generator = torch.Generator().manual_seed(10 * rank + step)
        return torch.randn(5, 3, dtype=D, generator=generator), torch.randn(5, dtype=D, generator=generator)

    def make():
        policy = LinUCB(3, dtype=D)
        policy.reset(batch_shape=(5,))
        policy.update(*observations(99, 0))
        return policy

    def learn(rank):
        policy = make()
        merger = RankMerger(policy)
        for step in range(3):
            policy.update(*observations(rank, step))
            merger.merge()
        return policy

    alone, policies = make(), ranks.run(learn)
    for step in range(3):
        for rank in range(ranks.world):
            alone.update(*observations(rank, step))
    for policy in policies:
        assert policy.statistics.equal(policies[0].statistics)
        assert policy.state.num_observations.tolist() == [1 + 3 * ranks.world] * 5
        torch.testing.assert_close(policy.state.V, alone.state.V, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(policy.state.b, alone.state.b, rtol=1e-12, atol=1e-12)


def test_ranks_that_did_not_start_alike_or_changed_their_batch_are_named(ranks):
    last = ranks.world - 1

    def unlike(rank):
        policy = LinUCB(2)
        if rank == last:
            policy.update(torch.eye(2), torch.ones(2))
        return RankMerger(policy)

    def resized(rank):
        policy = LinUCB(2)
        merger = RankMerger(policy)
        if rank == last:
            policy.reset(batch_shape=(2,))
        merger.merge()

    def other_size(rank):
        policy = LinUCB(2)
        policy.reset(batch_shape=(1,) if rank == last else ())
        return RankMerger(policy)

    for function in (unlike, other_size):
        assert all(f"ranks [{last}] differ from rank 0" in str(error) for error in ranks.run(function))
    assert all(f"but did in ranks [{last}]" in str(error) for error in ranks.run(resized))
