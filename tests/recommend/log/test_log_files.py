"""Files of a log that fail, are lost, or are wanted by several processes, threads and signals."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from tests.recommend.cases import fill, head, requests
from torch_softucb.recommend import DecisionLog, JournalError, log_records, read_log, restart, save_checkpoint
from torch_softucb.recommend.log.segments import segment_path

ROOT = Path(__file__).parent.parent.parent.parent
CALLS = ["pwrite", "ftruncate", "fsync", "fdatasync", "open", "replace", "unlink"]


def _served(ours, seed=0):
    return ours.serve(ours(*requests(3, 5, seed=seed)))


class FailsOnce:
    """Let one call out of all calls of some functions of ``os`` fail, by its number."""

    def __init__(self, monkeypatch, number, error=errno.ENOSPC):
        self.left, self.failed = number, False
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrapped(getattr(os, name), error))

    def _wrapped(self, real, error):
        def call(*arguments, **settings):
            self.left -= 1
            if self.left == 0:
                self.failed = True
                raise OSError(error, os.strerror(error))
            return real(*arguments, **settings)

        return call


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_after_a_failed_commit_every_call_raises_and_the_entries_are_still_queued(error, tmp_path, monkeypatch):
    ours = head()
    log = DecisionLog(tmp_path)
    first, second = _served(ours), _served(ours, 1)
    log.decisions(first)
    log.commit()
    log.decisions(second)
    log.rewards(second.id, torch.ones(3))

    def fails(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fdatasync" if error == errno.EIO else "pwrite", fails)
    with pytest.raises(OSError, match=os.strerror(error)):
        log.commit()
    monkeypatch.undo()
    third = _served(ours, 2)
    for call in (
        log.commit,
        log.commit,
        log.seal,
        log.close,
        log.close,
        lambda: log.__exit__(None, None, None),
        lambda: log.decisions(third),
        lambda: log.rewards(first.id, torch.ones(3)),
        lambda: log.drops(first.id),
        lambda: save_checkpoint(tmp_path / "a.pt", ours, log),
    ):
        with pytest.raises(JournalError, match=r"has failed .* 6 decisions and rewards are still queued; .* reopen\(\)"):
            call()
    assert not (tmp_path / "a.pt").exists()
    log.reopen()
    log.reopen()
    log.decisions(third)
    log.close()
    got = read_log(tmp_path)
    assert got.id.tolist() == [*first.id.tolist(), *second.id.tolist(), *third.id.tolist()]
    assert got.reward[3:6].tolist() == [1.0] * 3


@pytest.mark.parametrize("action", ["commit", "roll", "seal", "close", "open"])
def test_a_full_disk_at_any_write_loses_nothing_and_doubles_nothing(action, tmp_path, monkeypatch):
    points = 0
    for number in range(1, 200):
        ours, folder = head(), tmp_path / f"{number}"
        log = DecisionLog(folder, segment_bytes=1 if action == "roll" else 1 << 26)
        acknowledged = []
        served = _served(ours)
        log.decisions(served)
        log.commit()
        acknowledged += served.id.tolist()
        if action == "open":
            log.close()
        else:
            served = _served(ours, 1)
            log.decisions(served)
        with monkeypatch.context() as patch:
            fault = FailsOnce(patch, number)
            try:
                if action == "open":
                    log = DecisionLog(folder)
                elif action == "roll":
                    log.commit()
                else:
                    getattr(log, action)()
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017
        if not fault.failed:
            break
        points += 1
        if action == "open":
            log.reopen()
        try:
            log.commit()  # a log that did not fail for good goes on
        except JournalError as error:
            assert "reopen" in str(error) or "closed" in str(error)  # noqa: PT017
            log.reopen()
            log.commit()
        acknowledged += served.id.tolist() if action != "open" else []
        last = _served(ours, 2)
        log.decisions(last)
        log.seal()
        log.close()
        assert read_log(folder).id.tolist() == [*acknowledged, *last.id.tolist()]
        restart(head(), folder)
    assert points >= {"commit": 2, "roll": 10, "seal": 20, "close": 8, "open": 4}[action]


def test_a_failed_seal_leaves_the_log_usable(tmp_path, monkeypatch):
    ours = head()
    log = DecisionLog(tmp_path)
    fill(log, ours, steps=2)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("torch_softucb.recommend.log.parquet.seal_segment", full)
    with pytest.raises(OSError, match="full"):
        log.seal()
    monkeypatch.undo()
    fill(log, ours, steps=2, seed=9)
    log.commit()
    assert len(read_log(tmp_path).id) == 20
    log.seal()
    log.close()
    assert len(read_log(tmp_path).id) == 20


OTHER = """
import sys, time, torch
from torch_softucb import SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import DecisionLog, JournalError
head = SoftUCBHead(torch.nn.Identity(), SoftUCBPolicy(4, dtype=torch.double))
head.reseed(0, replica=int(sys.argv[2]))
print("ready", flush=True)
turns, refused = 0, 0
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end or turns == 0:
    try:
        log = DecisionLog(sys.argv[1], segment_bytes=20_000)
    except JournalError as error:
        assert "another writer" in str(error), error
        refused += 1
        time.sleep(0.001)
        continue
    for _ in range(4):
        served = head.serve(head(torch.randn(8, 3, 4, dtype=torch.double)))
        log.decisions(served)
        log.commit()
        print("ack", *served.id.tolist(), flush=True)
    if turns % 3 == 0:
        log.seal()
    log.close()
    turns += 1
    time.sleep(0.01)
print("turns", turns, refused, flush=True)
"""


@pytest.mark.slow
def test_two_processes_that_take_turns_and_seal_lose_nothing(tmp_path):
    command = [sys.executable, "-W", "error", "-c", OTHER, str(tmp_path)]
    both = [
        subprocess.Popen([*command, str(replica), "4"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        for replica in (1, 2)
    ]
    acknowledged, turns, refused = [], [], 0
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        for line in out.splitlines():
            kind, *numbers = line.split()
            if kind == "ack":
                acknowledged += map(int, numbers)
            elif kind == "turns":
                turns.append(int(numbers[0]))
                refused += int(numbers[1])
    assert min(turns) > 0
    ids = read_log(tmp_path).id.tolist()
    assert sorted(ids) == sorted(acknowledged)


def test_a_forked_process_cannot_write_close_or_release_the_log(tmp_path):
    ours = head()
    log = DecisionLog(tmp_path)
    log.decisions(_served(ours))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # a forked child has no worker threads
        refused = 0
        for call in (log.commit, log.close, log.seal, log.reopen, lambda: log.decisions(_served(ours, 1))):
            try:
                call()
            except JournalError as error:
                refused += "open the log after the fork" in str(error)
        del log
        os.write(write, bytes([refused]))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1) == bytes([5])
    with pytest.raises(JournalError, match="another writer"):
        DecisionLog(tmp_path)
    log.decisions(_served(ours, 2))
    log.close()
    assert len(read_log(tmp_path).id) == 6


def test_threads_share_a_log(tmp_path):
    ours, guard, errors = head(), threading.Lock(), []
    log = DecisionLog(tmp_path, group=7, segment_bytes=30_000)

    def work(seed):
        try:
            for step in range(40):
                with guard:
                    served = _served(ours, seed * 100 + step)
                log.decisions(served)
                log.rewards(served.id, served.id.double().sin())
                if step % 10 == 9:
                    log.commit()
                if step == 20 and seed == 0:
                    log.seal()
        except Exception as error:
            errors.append(error)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(switch)
    assert not errors
    log.close()
    got = read_log(tmp_path)
    assert sorted(got.id.tolist()) == list(range(int(got.id.min()), int(got.id.min()) + 960))
    assert got.reward.equal(got.id.double().sin())


def test_exceptions_of_signals_lose_and_double_nothing(tmp_path):
    """A request timeout may interrupt any call: what a commit acknowledged is in the log, and each decision once."""
    ours = head()
    log, acknowledged, interrupted = DecisionLog(tmp_path, group=8, segment_bytes=40_000), set(), 0

    class Timeout(Exception):
        pass

    def handler(*_):
        raise Timeout

    before = signal.signal(signal.SIGALRM, handler)
    try:
        end, step, waiting = time.monotonic() + 3, 0, []
        while time.monotonic() < end:
            step += 1
            served = _served(ours, step % 50)
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + (step * 7919 % 997) * 1.5e-6)
                try:
                    log.decisions(served)
                    log.commit()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except Timeout:
                interrupted += 1
                waiting.append(served)
                continue
            acknowledged.update(served.id.tolist())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for served in waiting:  # a retry is refused if the entry was taken, and taken if it was not
        try:
            log.decisions(served)
        except ValueError as error:
            assert "logged already" in str(error)  # noqa: PT017
    log.close()
    ids = read_log(tmp_path).id.tolist()
    assert len(ids) == len(set(ids))
    assert acknowledged <= set(ids)
    assert {id for served in waiting for id in served.id.tolist()} <= set(ids)
    assert interrupted > 10


def _five_segments(folder):
    ours = head()
    with DecisionLog(folder, group=1, segment_bytes=1) as log:
        fill(log, ours, steps=2)
    assert segment_path(folder, 5).exists()
    return folder


def test_a_lost_end_of_any_segment_is_refused(tmp_path):
    folder = _five_segments(tmp_path)
    for number in range(1, 6):
        path = segment_path(folder, number)
        data = path.read_bytes()
        for cut in range(32, len(data), 29):
            path.write_bytes(data[:cut])
            for call in (lambda: read_log(folder), lambda: restart(head(), folder)):
                with pytest.raises(JournalError, match=rf"{path.name}: .*(lost its end|damaged)"):
                    call()
        if number == 5:  # the one that a writer continues
            with pytest.raises(JournalError, match=path.name):
                DecisionLog(folder)
        path.write_bytes(data)
    assert len(read_log(folder).id) == 10


@pytest.mark.parametrize("number", [1, 2, 5])
def test_a_lost_segment_is_refused(number, tmp_path):
    folder = _five_segments(tmp_path)
    segment_path(folder, number).unlink()
    for call in (lambda: read_log(folder), lambda: list(log_records(folder)), lambda: DecisionLog(folder)):
        with pytest.raises(JournalError, match=f"segment {number} of 5 missing"):
            call()


def test_a_lost_or_old_log_json_is_refused(tmp_path):
    ours = head()
    with DecisionLog(tmp_path) as log:
        old = (tmp_path / "log.json").read_bytes()
        fill(log, ours, steps=2)
        log.seal()
    (tmp_path / "log.json").write_bytes(old)
    with pytest.raises(JournalError, match=r"log\.json: is older than the log, whose segment 1 is sealed"):
        DecisionLog(tmp_path)
    (tmp_path / "log.json").unlink()
    for call in (lambda: read_log(tmp_path), lambda: DecisionLog(tmp_path)):
        with pytest.raises(JournalError, match=r"log\.json: is missing"):
            call()
