"""Kill workers of a run under torchrun at random; the run must end as if nothing had happened, without long waits."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
_WORKERS = 2
_LIMIT = 180.0  # seconds without progress after which the run counts as hung
_SIZES = {
    "data.num_arms": 10,
    "data.dim": 4,
    "data.trajectories": 16,
    "data.eval_trajectories": 8,
    "model.init_args.horizon": 256,
    "trainer.enable_progress_bar": "false",
}


def restarts(kills: int, seed: int) -> dict[str, Any]:
    """Kill a random worker ``kills`` times, each at a random moment of one run, and compare with the undisturbed run.

    Returns:
        ``identical``: whether weights, optimiser and data position at the end have the same bits, in one run folder;
        ``longest_wait``: longest time in seconds from a kill to the next new checkpoint; ``kills``: kills that hit.
    """
    steps = 3 * kills + 10
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, "plain")
        disturbed = Path(folder, "disturbed")
        whole = _start(plain, steps)
        if whole.wait() != 0:
            raise RuntimeError(f"restarts: the undisturbed run failed:\n{(plain / 'output').read_text()}")
        waits = _disturb(_start(disturbed, steps, max_restarts=kills + 5), disturbed, kills, steps, random.Random(seed))
        one_folder = len(list((disturbed / "lightning_logs").iterdir())) == 1
        identical = one_folder and _end(plain) == _end(disturbed)
    return {"identical": identical, "longest_wait": max(waits, default=0.0), "kills": len(waits)}


def _start(folder: Path, steps: int, *, max_restarts: int = 0) -> "subprocess.Popen[bytes]":
    folder.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(_WORKERS)]
    command += ["--max-restarts", str(max_restarts), str(ROOT / "scripts" / "train.py")]
    command += ["--config", str(ROOT / "scripts" / "configs" / "multi_process.yaml"), "--resume", "last"]
    command += [f"--{name}={value}" for name, value in {**_SIZES, "data.num_steps": steps}.items()]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with (folder / "output").open("wb") as output:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)


def _disturb(agent: "subprocess.Popen[bytes]", folder: Path, kills: int, steps: int, rng: random.Random) -> list[float]:
    """Kill a worker soon after each of some random steps; return the waits until there was progress again."""
    waits = []
    try:
        for target in sorted(rng.sample(range(1, steps - 2), kills)):
            _wait_for(agent, folder, target)
            time.sleep(rng.uniform(0.0, 0.2))
            seen = _step(folder)
            if not _kill_one(agent, rng):
                break  # it has finished first
            began = time.monotonic()
            _wait_for(agent, folder, seen + 1)
            waits.append(time.monotonic() - began)
        if agent.wait(_LIMIT) != 0:
            raise RuntimeError(f"restarts: the run ended with {agent.returncode}:\n{(folder / 'output').read_text()}")
    finally:
        agent.terminate()
        agent.wait()
    return waits


def _kill_one(agent: "subprocess.Popen[bytes]", rng: random.Random) -> bool:
    """Kill one of the workers, which torchrun may just be replacing; return False if the run is over."""
    while agent.poll() is None:
        workers = _children(agent.pid)
        try:
            if workers:
                os.kill(rng.choice(workers), signal.SIGKILL)
                return True
        except ProcessLookupError:
            pass  # it ended after it was listed
        time.sleep(0.02)
    return False


def _wait_for(agent: "subprocess.Popen[bytes]", folder: Path, step: int) -> None:
    deadline = time.monotonic() + _LIMIT
    while agent.poll() is None and _step(folder) < step:
        if time.monotonic() > deadline:
            raise RuntimeError(f"restarts: no progress for {_LIMIT:.0f} s:\n{(folder / 'output').read_text()}")
        time.sleep(0.02)


def _children(pid: int) -> list[int]:
    """Return the processes that torchrun has started, by Linux's process table."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _checkpoint(folder: Path) -> dict[str, Any] | None:
    files = sorted(folder.glob("lightning_logs/version_*/checkpoints/last.ckpt"))
    return torch.load(files[-1], weights_only=True) if files else None


def _step(folder: Path) -> int:
    checkpoint = _checkpoint(folder)
    return 0 if checkpoint is None else int(checkpoint["global_step"])


def _end(folder: Path) -> Any:
    """Return what a run ended with, as plain numbers that compare bit for bit."""
    checkpoint = _checkpoint(folder)
    assert checkpoint is not None
    loader = checkpoint["loops"]["fit_loop"]["state_dict"]["combined_loader"]
    kept = {name: checkpoint[name] for name in ("global_step", "state_dict", "optimizer_states", "lr_schedulers")}
    return _plain({**kept, "loader": loader})


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
