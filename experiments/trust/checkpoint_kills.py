"""R7: kill -9 while checkpoints are overwritten."""

import os
import random
import signal
import struct
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

import torch

from experiments.trust.goal import Result, Size, goal
from torch_softucb.training import AtomicCheckpointIO


def _numbered(number: int) -> dict[str, Any]:
    return {
        "pytorch-lightning_version": "2.6.6",
        "state_dict": {"weights": torch.full((20_000,), float(number))},
        "number": number,
    }


def _save_forever(path: Path, number: int, pipe: int) -> NoReturn:
    io = AtomicCheckpointIO()
    try:
        while True:
            number += 1
            io.save_checkpoint(_numbered(number), path)
            os.write(pipe, struct.pack("<q", number))  # acknowledged
    finally:
        os._exit(1)


def _kill_during_saves(folder: Path, kills: int, rng: random.Random) -> dict[str, int]:
    path, io = folder / "last.ckpt", AtomicCheckpointIO()
    start = time.perf_counter()
    for _ in range(5):
        io.save_checkpoint(_numbered(0), path)
    typical = (time.perf_counter() - start) / 5
    number, counts = 0, {"unreadable": 0, "old": 0, "saves": 0, "most left over": 0}
    for _ in range(kills):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _save_forever(path, number, write)
        os.close(write)
        time.sleep(rng.uniform(0.0, 5 * typical))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with open(read, "rb") as pipe:
            reports = pipe.read()
        acknowledged = struct.unpack_from("<q", reports, len(reports) - 8)[0] if reports else number
        counts["most left over"] = max(counts["most left over"], len(list(folder.iterdir())) - 1)
        try:
            state = io.load_checkpoint(path)
        except ValueError:
            counts["unreadable"] += 1
            io.save_checkpoint(_numbered(number), path)
            continue
        counts["unreadable"] += not bool((state["state_dict"]["weights"] == state["number"]).all())
        counts["old"] += state["number"] < acknowledged
        counts["saves"] += state["number"] - number
        number = state["number"]
    io.save_checkpoint(_numbered(number), path)
    counts["left after the next save"] = len(list(folder.iterdir())) - 1
    return counts


@goal(
    "R7",
    claim="""1,000 times kill -9 while a checkpoint is overwritten: no unreadable file, none older than the last
    acknowledged save, at most one temporary file left over, and none after the next save.""",
    method="""A child process saves numbered checkpoints without end and reports each finished save; it is killed after
    a random time, at most that of 5 saves, and the file is loaded. In half of the runs the system's temporary folder
    is on another filesystem.""",
)
def checkpoint_kills(size: Size) -> Result:
    torch.set_num_threads(1)
    kills, rng = size.of(500, 25), random.Random(size.seed)
    total: dict[str, int] = {}
    other = "/dev/shm" if os.path.isdir("/dev/shm") else None
    for elsewhere in (None, other):
        with tempfile.TemporaryDirectory() as folder:
            if elsewhere:
                os.environ["TMPDIR"] = elsewhere
                tempfile.tempdir = None
            for name, count in _kill_during_saves(Path(folder), kills, rng).items():
                total[name] = max(total.get(name, 0), count) if "left" in name else total.get(name, 0) + count
    left, after = total["most left over"], total["left after the next save"]
    enough = total["saves"] > kills / 2
    met = total["unreadable"] == total["old"] == after == 0 and left <= 1 and enough
    where = "half with TMPDIR on another filesystem" if other else "one filesystem only: /dev/shm is missing"
    return Result(
        met,
        f"{2 * kills:,} kills ({where}) during {total['saves']:,} finished saves: {total['unreadable']} unreadable, "
        f"{total['old']} old, at most {left} left over, {after} after the next save",
    )
