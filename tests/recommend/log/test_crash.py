"""kill -9 while decisions are logged and statistics updated."""

import os
import random
import signal
import struct
import threading
import time
import warnings

import pytest
import torch

from tests.recommend.cases import head, requests
from torch_softucb.errors import LogWarning
from torch_softucb.recommend import DecisionLog, read_log, restart, save_checkpoint
from torch_softucb.recommend.log.journal import Journal
from torch_softucb.recommend.log.segments import segment_path, segments


def _serve(folder, pipe):
    """Serve, log, acknowledge and answer without end, with checkpoints now and then; report what is durable to a parent."""
    torch.set_num_threads(1)
    write_frame = Journal._write

    def reported(journal, *arguments):
        write_frame(journal, *arguments)
        os.write(pipe, struct.pack("<qqq", int(journal.path.stem), journal.end.size, -1))  # so much is durable

    Journal._write = reported  # commits and closing marks
    ours = head(users=20)
    if segments(folder / "log"):
        restart(ours, folder / "log", folder / "head.pt" if (folder / "head.pt").exists() else None)
    log = DecisionLog(folder / "log", group=4, segment_bytes=60_000)
    open_ids = []
    step = 0
    while True:
        step += 1
        user, items = requests(3, 5, seed=step)
        with torch.no_grad():
            served = ours.serve(ours(user, items, bandit=user))
        log.decisions(served)
        open_ids += served.id.tolist()
        if step % 2 == 0 and len(open_ids) > 4:
            random.shuffle(open_ids)
            ids = torch.tensor([open_ids.pop() for _ in range(3)])
            reward = ids.double().sin()
            ours.feedback(ids, reward)
            log.rewards(ids, reward)
        if step % 3 == 0:
            log.commit()
            # from here on these decisions may be shown: all ids below the next one are safe
            os.write(pipe, struct.pack("<qqq", log.place.segment, log._files._active[1].end.size, int(ours.stream[1])))
        if step % 17 == 0:
            save_checkpoint(folder / "head.pt", ours, log)
        if step % 41 == 0:
            log.seal()


def _acknowledged(pipe):
    data = b""
    while chunk := os.read(pipe, 1 << 16):
        data += chunk
    reports = [struct.unpack_from("<qqq", data, at) for at in range(0, len(data) // 24 * 24, 24)]
    if not reports:
        return 0, 0, 0
    return reports[-1][0], reports[-1][1], max(acknowledged for *_, acknowledged in reports)


@pytest.mark.parametrize("kills", [pytest.param(15, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.long)])
def test_kills_lose_nothing_that_was_acknowledged(kills, tmp_path_factory):
    rng = random.Random(0)
    lost = torn = cut = 0
    safe = total = 0
    for kill in range(kills):
        if kill % 20 == 0:  # a separate log, so that reading it stays quick
            tmp_path = tmp_path_factory.mktemp("crash")
            total, safe = total + safe, 0
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)  # a forked child has no worker threads
            os.close(read)
            try:
                _serve(tmp_path, write)
            finally:
                os._exit(1)
        os.close(write)
        time.sleep(rng.uniform(0.02, 0.25))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, "the child ended by itself"
        segment, size, acknowledged = _acknowledged(read)
        os.close(read)
        safe = max(safe, acknowledged)
        journal = segment_path(tmp_path / "log", segment)
        if (
            rng.random() < (0.6 if kills < 100 else 0.3)
            and journal.exists()
            and not [*(tmp_path / "log").glob(f"{segment + 1:08d}*")]
        ):
            # data that was not synced may never reach the disk: cut the file behind the last commit that returned
            data = journal.read_bytes()
            end = len(data.rstrip(b"\0"))
            if end > size:
                journal.write_bytes(data[: rng.randint(size, end)])
                cut += 1
        if not safe:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LogWarning)  # the commit that was cut off
            log = read_log(tmp_path / "log")
        ids = [id & ((1 << 34) - 1) for id in log.id.tolist()]
        lost += len(set(range(safe)) - set(ids))
        torn += len(ids) - len(set(ids))
        assert log.x.isfinite().all()
        assert ((log.propensity > 0) & (log.propensity <= 1)).all()
        known = ~log.reward.isnan()
        torch.testing.assert_close(log.reward[known], log.id[known].double().sin())
        if kill % 5 == 4:
            again, whole = head(users=20), head(users=20)
            checkpoint = tmp_path / "head.pt"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LogWarning)
                restart(again, tmp_path / "log", checkpoint if checkpoint.exists() else None)
                restart(whole, tmp_path / "log")  # the whole log, in one go: the run that was not interrupted
            for name, value in whole.state_dict().items():
                torch.testing.assert_close(again.state_dict()[name], value, atol=1e-9, rtol=0)
            open_now = (~known).sum()
            assert len(again.pending) == open_now
    print(
        f"{kills} kills, {cut} with the unsynced tail cut: {total + safe} decisions acknowledged, "
        f"{lost} lost, {torn} torn or doubled"
    )
    assert lost == 0
    assert torn == 0
    if kills >= 100:
        assert total > 2000
        assert cut > 0


@pytest.mark.parametrize("reads", [150, pytest.param(3_000, marks=pytest.mark.long)])
def test_readers_beside_a_writer_see_no_error_and_never_less(reads, tmp_path):
    """The writer commits, starts new segments and seals; at most 2,000 decisions per log, so that reading stays quick."""
    errors, done, folders = [], threading.Event(), [tmp_path / "0"]

    def write():
        try:
            turn = 0
            while not done.is_set():
                ours = head(users=20)
                with DecisionLog(folders[-1], group=4, segment_bytes=20_000) as log:
                    for step in range(650):
                        if done.is_set():
                            break
                        user, items = requests(3, 5, seed=step)
                        with torch.no_grad():
                            served = ours.serve(ours(user, items, bandit=user))
                        log.decisions(served)
                        log.rewards(served.id, served.id.double().sin())
                        if step % 60 == 59:
                            log.seal()
                turn += 1
                folders.append(tmp_path / f"{turn}")
        except BaseException as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    seen, folder, count = 0, folders[-1], 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            while count < reads and not errors:
                if folders[-1] != folder:
                    seen, folder = 0, folders[-1]
                if not segments(folder) or not (folder / "log.json").exists():
                    continue
                try:
                    log = read_log(folder)
                except ValueError as error:
                    assert "no decision in" in str(error), error  # noqa: PT017
                    continue
                assert len(log.id) >= seen
                seen, count = len(log.id), count + 1
    finally:
        done.set()
        writer.join()
    assert not errors
    assert count == reads
