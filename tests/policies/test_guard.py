"""The lock of a policy, and the way back from an interrupted change."""

import copy
import io
import os
import threading

import pytest
import torch

from torch_softucb import SoftUCBPolicy
from torch_softucb.policies.guard import Guard, fork_count, keep_values, load_whole


def test_a_change_that_raises_is_undone_and_one_that_does_not_counts():
    guard, state = Guard(), {"a": 1}

    def fail():
        state["a"] = 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guard.commit(fail, lambda: state.update(a=1))
    assert state == {"a": 1}
    assert guard.commit(lambda: state.update(a=3) or "done", lambda: state.update(a=1)) == "done"
    guard.recover()
    assert state == {"a": 3}


def test_an_undo_that_is_interrupted_is_completed_later():
    guard, state, broken = Guard(), [1], [True]

    def undo():
        if broken.pop():
            broken.append(False)
            raise TimeoutError
        state[0] = 1

    def write():
        state[0] = 2
        raise MemoryError

    with pytest.raises(TimeoutError):
        guard.commit(write, undo)
    assert state == [2]
    guard.recover()
    assert state == [1]


def test_policies_with_their_lock_are_copied_and_pickled():
    policy = SoftUCBPolicy(2)
    with policy.guard.lock:  # a copy is not locked with the original
        twin = copy.deepcopy(policy)
        file = io.BytesIO()
        torch.save(policy, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    for other in (twin, again):
        assert other.guard is not policy.guard
        other.update(torch.eye(2), torch.ones(2))
        assert policy.state.num_observations == 0
        assert other.state.num_observations == 2
    assert not any("guard" in name for name in policy.state_dict())


def test_a_policy_learns_from_several_threads_at_once():
    """40,000 single observations of one bandit and as many of a batch: all are counted, and the caches are intact."""
    one, many = SoftUCBPolicy(3, dtype=torch.double), SoftUCBPolicy(3, dtype=torch.double)
    many.reset(batch_shape=(50,))
    x = torch.nn.functional.normalize(torch.randn(50, 3, dtype=torch.double), dim=-1)

    def learn(worker):
        for i in range(500):
            one.update(x[(worker + i) % 50], torch.ones((), dtype=torch.double))
            rows = torch.arange(worker, worker + 10)
            many.update(x[:10], torch.ones(10, dtype=torch.double), bandit=rows)
            many(x[:4], bandit=rows)

    threads = [threading.Thread(target=learn, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one.state.num_observations == 4000
    assert many.state.num_observations.sum() == 40_000
    assert one.cache_error() < 1e-10
    assert many.cache_error().max() < 1e-10


def test_a_child_of_a_fork_does_not_wait_for_a_lock_that_nobody_holds():
    policy, held, done = SoftUCBPolicy(2), threading.Event(), threading.Event()

    def hold():
        with policy.guard.lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    generation = fork_count()
    if not (child := os.fork()):
        free = policy.guard.lock.acquire(timeout=5)
        os._exit(0 if free and fork_count() == generation + 1 else 1)
    status = os.waitpid(child, 0)[1]
    assert not policy.guard.lock.acquire(blocking=False)  # in the parent it is still held
    done.set()
    thread.join()
    assert status == 0
    assert fork_count() == generation


def test_values_are_restored_and_a_failed_load_leaves_the_module_as_it_was():
    tensor = torch.arange(3.0)
    restore = keep_values([tensor])
    tensor.zero_()
    restore()
    assert tensor.tolist() == [0, 1, 2]
    module, guard = torch.nn.BatchNorm1d(2), Guard()
    module.note, weight = "before", module.weight

    def load():
        module.note = "after"
        module.weight = torch.nn.Parameter(torch.zeros(2))
        module.running_mean.fill_(5)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        load_whole(guard, module, load)
    assert module.note == "before"
    assert module.weight is weight
    assert module.running_mean.tolist() == [0, 0]
    policy = SoftUCBPolicy(2, beta_init=0.5)
    with pytest.raises(ValueError, match="got without"):
        policy.load_state_dict({"statistics": torch.zeros(3, policy.layout.size, dtype=torch.double)})
    assert policy.batch_shape == ()


def test_changes_inside_a_change_are_undone_together():
    guard, state = Guard(), []

    def write_inner():
        guard.recover()  # what every guarded method calls first; must not undo the change in progress
        state.append("inner")

    def write():
        state.append("outer")
        guard.commit(write_inner, lambda: state.remove("inner") if "inner" in state else None)
        assert state == ["outer", "inner"]
        if fail:
            raise TimeoutError

    def undo():
        state.clear()

    fail = True
    with pytest.raises(TimeoutError):
        guard.commit(write, undo)
    assert state == []
    fail = False
    guard.commit(write, undo)
    guard.recover()
    assert state == ["outer", "inner"]


def test_a_load_completes_an_interrupted_undo_first_and_is_not_undone_with_it():
    guard, module, interrupted = Guard(), torch.nn.Linear(1, 1, bias=False), [True]
    before = module.weight.item()

    def fail():
        raise MemoryError

    def undo():
        if interrupted.pop():
            interrupted.append(False)
            raise TimeoutError
        torch.nn.init.constant_(module.weight, before)

    with pytest.raises(TimeoutError):
        guard.commit(fail, undo)
    load_whole(guard, module, lambda: torch.nn.init.constant_(module.weight, 7.0))
    guard.recover()
    assert module.weight.item() == 7.0
