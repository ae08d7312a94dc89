"""One head in several threads, processes and under signals."""

import copy
import io
import os
import signal
import threading
import time

import pytest
import torch
from torch import nn

from tests.recommend.cases import head
from torch_softucb import SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import OnlineBeta

D = torch.double


def _serve_in_threads(ours, learner, workers, requests, *, users):
    """Serve and answer in threads; returns (id, x, reward, bandit) of each request, by worker."""
    done = [[] for _ in range(workers)]
    failed = []

    def work(worker):
        g = torch.Generator().manual_seed(worker)
        try:
            for i in range(requests):
                features = torch.randn(2, 5, 3, dtype=D, generator=g)
                bandit = torch.randint(20, (2,), generator=g) if users else None
                with torch.no_grad():
                    decision = ours(features, bandit=bandit)
                served = ours.serve(decision)
                if i % 10 == 0:
                    learner.step(decision)
                reward = torch.randn(2, dtype=D, generator=g)
                assert ours.feedback(served.id, reward) == 2
                done[worker].append((served.id, served.x, reward, bandit))
                if i % 100 == 0:
                    ours.state_dict()
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    return done


@pytest.mark.parametrize("requests", [250, pytest.param(2500, marks=pytest.mark.long)])
@pytest.mark.parametrize("users", [None, 20])
def test_eight_threads_share_a_head(users, requests):
    """Two decisions per request: ids are distinct, all rewards learned, the statistics are those of a sequential run."""
    policy = SoftUCBPolicy(3, beta_init=0.5, dtype=D)
    ours = head(policy, users=users)
    ours.encoder = nn.Identity()
    learner = OnlineBeta(policy, horizon=10**6, lr=1e-3)
    done = [request for each in _serve_in_threads(ours, learner, 8, requests, users=users) for request in each]
    ids = torch.cat([request[0] for request in done]).tolist()
    assert len(set(ids)) == len(ids) == 16 * requests
    assert not len(ours.open_decisions)
    assert policy.state.num_observations.sum() == 16 * requests
    assert learner.decisions == 16 * -(-requests // 10)
    assert policy.cache_error().max() < 1e-8
    twin = SoftUCBPolicy(3, dtype=D)
    twin.reset(batch_shape=tuple(policy.batch_shape))
    for _, x, reward, bandit in done:
        twin.update(x, reward, bandit=bandit)
    torch.testing.assert_close(policy.state.V, twin.state.V, atol=1e-9, rtol=0)
    torch.testing.assert_close(policy.state.b, twin.state.b, atol=1e-9, rtol=0)


def _in_child(function):
    """Fork; returns what the function returns in the child, a list of ints."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            torch.set_num_threads(1)  # a forked child has no worker threads
            os.write(writing, ",".join(map(str, function())).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    assert os.waitpid(child, 0)[1] == 0
    return [int(number) for number in text.split(",")]


def test_a_forked_child_issues_other_ids_and_other_draws_than_its_parent():
    ours = SoftUCBHead(nn.Identity(), SoftUCBPolicy(2), seed=0)
    features = torch.randn(40, 9, 2)
    first = ours.serve(ours(features))

    def serve():
        served = ours.serve(ours(features))
        assert ours.feedback(first.id, torch.ones(40)) == 40  # what the parent served before is known
        return [*served.id.tolist(), *served.arm.tolist()]

    children = [_in_child(serve) for _ in range(2)]
    here = serve()
    ids = [set(numbers[:40]) for numbers in (*children, here)]
    assert len(ids[0] | ids[1] | ids[2]) == 120
    assert here[0] == first.id[-1] + 1  # the parent goes on
    draws = [tuple(numbers[40:]) for numbers in (*children, here)]
    assert len(set(draws)) == 3


def test_new_heads_issue_new_ids_and_a_seed_fixes_the_draws():
    features = torch.randn(30, 9, 2)
    heads = [SoftUCBHead(nn.Identity(), SoftUCBPolicy(2), seed=seed) for seed in (None, None, 4, 4)]
    served = [each.serve(each(features)) for each in heads]
    assert len(set(torch.cat([s.id for s in served]).tolist())) == 120
    assert not served[0].arm.equal(served[1].arm)
    assert served[2].arm.equal(served[3].arm)


def test_copies_and_pickles_of_a_head_have_one_lock_of_their_own():
    ours = head()
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    for twin in (copy.deepcopy(ours), torch.load(file, weights_only=False)):
        assert twin.guard is twin.policy.guard
        assert twin.guard is not ours.guard


@pytest.mark.parametrize("users", [None, 20])
def test_requests_that_time_out_are_learned_once_or_not_at_all(users):
    """A timer raises in the middle of calls for 2 s; refused retries and open decisions then add up."""
    ours = head(users=users)
    ours.encoder = nn.Identity()
    features = torch.randn(2, 5, 4, dtype=D)
    bandit = torch.tensor([3, 7]) if users else None
    interrupted = learned = 0

    def raise_timeout(*_):
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, raise_timeout)
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + 2e-3 * torch.rand(()).item())
                served = ours.serve(ours(features, bandit=bandit))
                while True:
                    try:
                        learned += ours.feedback(served.id, torch.ones(2, dtype=D), on_repeat="ignore")
                        break
                    except TimeoutError:
                        interrupted += 1
                signal.setitimer(signal.ITIMER_REAL, 0)
            except TimeoutError:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    free, lock = [], ours.guard.lock

    def take():
        free.append(lock.acquire(timeout=5))
        if free[0]:
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert free == [True]
    print(f"{interrupted} interrupted, {learned} learned")
    assert interrupted > 50
    assert learned > 50
    issued = int(ours.stream[1])
    assert float(ours.policy.state.num_observations.sum()) + len(ours.open_decisions) == issued
    ours.drop(ours.open_decisions)
    assert len(ours.serve(ours(features, bandit=bandit)).id) == 2
