"""R10, first part: kill -9 while decisions are logged, with the part of the file cut off that was not yet synced."""

import os
import random
import shutil
import signal
import struct
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

import torch

from experiments.trust.serving import new_head, request
from torch_softucb.recommend import DecisionLog, read_log, restart, save_checkpoint

_SYNCED, _SHOWN, _OPENED = 0, 1, 2
_MESSAGE = struct.Struct("<bqq")


class _SyncReporter:
    """Report to a pipe how far each file is durable: the end of the data written to it before its last sync."""

    def __init__(self, pipe: int) -> None:
        self.pipe, self.ends = pipe, dict[int, int]()
        self._pwrite, self._fsync, self._fdatasync = os.pwrite, os.fsync, os.fdatasync
        os.pwrite, os.fsync, os.fdatasync = self.pwrite, self.fsync, self.fdatasync  # type: ignore[assignment]

    def pwrite(self, handle: int, data: Any, position: int) -> int:
        done = self._pwrite(handle, data, position)
        filled = len(bytes(data[:done]).rstrip(b"\0"))
        if filled:
            inode = os.fstat(handle).st_ino
            self.ends[inode] = max(self.ends.get(inode, 0), position + done)
        return done

    def _report(self, handle: int) -> None:
        inode = os.fstat(handle).st_ino
        if inode in self.ends:
            os.write(self.pipe, _MESSAGE.pack(_SYNCED, inode, self.ends[inode]))

    def fsync(self, handle: int) -> None:
        self._fsync(handle)
        self._report(handle)

    def fdatasync(self, handle: int) -> None:
        self._fdatasync(handle)
        self._report(handle)


def _serve_forever(folder: Path, pipe: int, seed: int) -> NoReturn:
    """Serve, log, commit and answer without end, with checkpoints and sealed segments now and then."""
    try:
        rng = random.Random(seed)
        _SyncReporter(pipe)
        head = new_head(users=20)
        if any((folder / "log").glob("????????.*")):
            restart(head, folder / "log", folder / "head.pt" if (folder / "head.pt").exists() else None)
        log = DecisionLog(folder / "log", group=4, segment_bytes=60_000)
        os.write(pipe, _MESSAGE.pack(_OPENED, 0, 0))
        waiting: list[int] = []
        unshown: list[int] = []
        step = 0
        while True:
            step += 1
            user, items = request(3, 5, 1000 * seed + step)
            served = head.serve(head(items, bandit=user))
            log.decisions(served)
            waiting += served.id.tolist()
            unshown += served.id.tolist()
            if step % 2 == 0 and len(waiting) > 4:
                rng.shuffle(waiting)
                ids = torch.tensor([waiting.pop() for _ in range(3)])
                head.feedback(ids, ids.double().sin())
                log.rewards(ids, ids.double().sin())
            if step % 3 == 0:
                log.commit()
                for id in unshown:  # from here on these decisions may be shown
                    os.write(pipe, _MESSAGE.pack(_SHOWN, id, 0))
                unshown.clear()
            if step % 17 == 0:
                save_checkpoint(folder / "head.pt", head, log)
            if step % 41 == 0:
                log.seal()
    finally:
        os._exit(1)


def _cut(folder: Path, durable: dict[int, int], rng: random.Random) -> bool:
    """Cut a journal somewhere behind its durable part: what was not synced may never reach the disk."""
    journals = sorted((folder / "log").glob("*.journal"))
    if not journals:
        return False
    data = journals[-1].read_bytes()
    end, safe = len(data.rstrip(b"\0")), durable.get(journals[-1].stat().st_ino, len(data))
    if end <= safe:
        return False
    os.truncate(journals[-1], rng.randint(safe, end))
    return True


def kill_log(kills: int, seed: int) -> dict[str, int]:
    """Kill a serving process again and again; count what its log has lost, doubled or damaged."""
    rng = random.Random(seed)
    counts = dict.fromkeys(("acknowledged", "lost", "doubled", "damaged", "cut", "unreadable", "ended"), 0)
    folder, shown = Path(tempfile.mkdtemp()), set[int]()
    for kill in range(kills):
        if kill % 20 == 19:  # another log, so that reading it stays quick
            shutil.rmtree(folder)
            folder, shown = Path(tempfile.mkdtemp()), set()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _serve_forever(folder, write, rng.randrange(10**6))
        os.close(write)
        if kill % 4:  # else it may be killed while it restores its state
            os.read(read, _MESSAGE.size)
        time.sleep(rng.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        counts["ended"] += not os.WIFSIGNALED(status)
        with open(read, "rb") as pipe:
            data = pipe.read()
        durable: dict[int, int] = {}
        for record_type, number, end in _MESSAGE.iter_unpack(data[: len(data) // _MESSAGE.size * _MESSAGE.size]):
            if record_type == _SHOWN:
                counts["acknowledged"] += number not in shown
                shown.add(number)
            elif record_type == _SYNCED:
                durable[number] = max(durable.get(number, 0), end)
        if kill % 2 == 0:
            counts["cut"] += _cut(folder, durable, rng)
        if not shown:
            continue
        _compare(folder, shown, counts)
    shutil.rmtree(folder)
    return counts


def _compare(folder: Path, shown: set[int], counts: dict[str, int]) -> None:
    try:
        log = read_log(folder / "log")
    except ValueError:
        counts["unreadable"] += 1
        return
    ids = log.id.tolist()
    counts["lost"] += len(shown - set(ids))
    counts["doubled"] += len(ids) - len(set(ids))
    known = ~log.reward.isnan()
    right = log.x.isfinite().all(-1) & (log.propensity > 0) & (log.propensity <= 1)
    right[known] &= (log.reward[known] - log.id[known].double().sin()).abs() < 1e-12
    counts["damaged"] += int((~right).sum())
