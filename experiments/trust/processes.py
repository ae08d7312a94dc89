"""R15, R16: several processes learn together, and survive each other's death."""

import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from experiments.trust.goal import Result, Size, goal
from torch_softucb import SoftUCBPolicy

ROOT = Path(__file__).parents[2]
_PROGRAM = ROOT / "tests" / "training" / "lightning_head.py"  # a head and a policy inside a LightningModule
_HEAD, _POLICY, _BETA = "parts.head.policy.statistics", "policy.statistics", "policy.raw_beta"


def _trained(folder: Path, processes: int) -> list[dict[str, Any]]:
    """Train in several processes and return the state of every rank."""
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), str(folder), str(processes)], capture_output=True, text=True, timeout=400, cwd=ROOT
    )
    if done.returncode:
        raise RuntimeError(f"{processes} processes: {done.stderr.strip().splitlines()[-1:]}")
    return [torch.load(folder / f"{processes}_{rank}.pt", weights_only=True) for rank in range(processes)]


@goal(
    "R15",
    claim="""A head and a policy inside a LightningModule, trained with DistributedDataParallel in 1, 2 and 4
    processes: the count of observations is exact, V and b are within 1e-12 of one process, all ranks are bitwise
    equal after merging, and beta after 50 steps is within 1e-6.""",
    method="""The same 50 batches are divided among 1, 2 and 4 processes (gloo). Every rank updates with its share of
    the rewards, and statistics are merged after each batch. The states that the ranks end with are compared.""",
)
def merged_processes(size: Size) -> Result:
    program = importlib.import_module("tests.training.lightning_head")
    expected = program.STEPS * program.REQUESTS
    layout = SoftUCBPolicy(program.DIM).layout
    worst = beta_error = 0.0
    counts, equal = [], True
    with tempfile.TemporaryDirectory() as name:
        (one,) = _trained(Path(name), 1)
        want = layout.unpack(one[_POLICY])
        for processes in size.of((2, 4), (2,)):
            ranks = _trained(Path(name), processes)
            equal &= all(torch.equal(rank[key], ranks[0][key]) for rank in ranks for key in (_HEAD, _POLICY, _BETA))
            got = layout.unpack(ranks[0][_POLICY])
            counts += [int(got.num_observations), int(layout.unpack(ranks[0][_HEAD]).num_observations)]
            worst = max(worst, float(((got.V - want.V) / want.V.abs().max()).abs().max()))
            worst = max(worst, float(((got.b - want.b) / want.b.abs().max()).abs().max()))
            beta_error = max(beta_error, float((ranks[0][_BETA] - one[_BETA]).abs()))
    moved = float(one[_BETA]) != 1.0
    met = all(count == expected for count in counts) and worst <= 1e-12 and equal and beta_error <= 1e-6 and moved
    return Result(
        met,
        f"counts {', '.join(map(str, counts))} of {expected}; V and b within {worst:.1e}; ranks "
        f"{'bitwise equal' if equal else 'different'}; beta within {beta_error:.1e}",
    )


@goal(
    "R16",
    claim="""20 random SIGKILLs of a worker in one torchrun: the run ends bitwise where the undisturbed run ends, and
    no restart takes more than 30 s.""",
    method="""A training is started by torchrun with two workers and restarts allowed; a random worker is killed at
    random moments, and each generation goes on from the last checkpoint.""",
    minutes=15,
)
def restarted_workers(size: Size) -> Result:
    restarts = importlib.import_module("experiments.trust.restarts").restarts
    found: dict[str, Any] = restarts(kills=size.of(20, 1), seed=size.seed)
    end = "bitwise equal" if found["identical"] else "different"
    figures = f"{found['kills']} kills: the end is {end}, longest wait {found['longest_wait']:.0f} s"
    met = bool(found["identical"]) and found["kills"] >= size.of(20, 1) and found["longest_wait"] <= 30
    return Result(met, figures)
