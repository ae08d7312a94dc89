"""Run goals, each in a separate process: a goal that crashes, hangs or runs out of memory is not met; the others go on."""

import argparse
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.trust.goal import GOALS, Goal, Result, Size

ROOT = Path(__file__).parents[2]
GROUPS = (
    "numerics",
    "gradients",
    "failures",
    "resume",
    "checkpoint_kills",
    "files",
    "log_kills",
    "log_faults",
    "arrival_orders",
    "chance",
    "suite",
    "processes",
    "mutants",
    "soak",
    "threads",
)


@dataclass(frozen=True)
class Outcome:
    """A goal, what was measured, how long it took, and when the run began that it belongs to."""

    goal: Goal
    result: Result
    seconds: float
    run: str = ""


def load_goals() -> list[Goal]:
    """Import all groups and return their goals in the order of their numbers."""
    for group in GROUPS:
        importlib.import_module(f"experiments.trust.{group}")
    return sorted(GOALS.values(), key=lambda goal: int(goal.id[1:]))


def measure(id: str, size: Size) -> Outcome:
    """Measure one goal in a new process, which imports only the module of that goal."""
    goal = GOALS[id]
    module = goal.measure.__module__
    command = [
        sys.executable,
        "-m",
        "experiments.trust.runner",
        id,
        "--module",
        module,
        "--seed",
        str(size.seed),
        *["--quick"] * size.quick,
    ]
    environment = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT)}
    start = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=60 * goal.minutes)
        result = _parsed(out, err, process.returncode)
    except subprocess.TimeoutExpired:
        result = Result(False, f"stopped after {goal.minutes:g} minutes without a result")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # whatever the measurement has started and left behind
        process.wait()
    return Outcome(goal, result, time.monotonic() - start)


def _parsed(out: str, err: str, status: int) -> Result:
    lines = out.strip().splitlines()
    try:
        return Result(**json.loads(lines[-1]))
    except (IndexError, ValueError, TypeError):
        reason = (err.strip().splitlines() or ["no message"])[-1]
        return Result(False, f"the measurement failed (exit status {status}): {reason[:300]}")


def measure_all(ids: Iterable[str], size: Size, *, report: Callable[[Outcome], None], workers: int = 2) -> list[Outcome]:
    """Measure goals, two at a time; those that measure time run alone, at the end.

    Args:
        ids: which goals.
        size: how much to measure.
        report: called with every outcome as soon as it is known.
        workers: number of goals that run at the same time.
    """
    together = sorted((id for id in ids if not GOALS[id].alone), key=lambda id: -GOALS[id].minutes)  # the longest first
    alone = [id for id in ids if GOALS[id].alone]
    outcomes = []

    def run(id: str) -> None:
        outcome = measure(id, size)
        outcomes.append(outcome)
        report(outcome)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(run, together))
    for id in alone:
        run(id)
    return sorted(outcomes, key=lambda outcome: int(outcome.goal.id[1:]))


def save_outcomes(path: Path, outcomes: Iterable[Outcome]) -> None:
    """Write outcomes as JSON."""
    rows = [{"id": o.goal.id, "seconds": o.seconds, "run": o.run, **asdict(o.result)} for o in outcomes]
    path.write_text(json.dumps(rows, indent=1) + "\n")


def load_outcomes(path: Path) -> list[Outcome]:
    """Read what :func:`save_outcomes` wrote; goals that no longer exist are left out."""
    rows = json.loads(path.read_text()) if path.exists() else []
    return [
        Outcome(GOALS[r["id"]], Result(r["met"], r["measured"]), r["seconds"], r["run"]) for r in rows if r["id"] in GOALS
    ]


def main() -> None:
    """Measure one goal in this process and print the result as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("id")
    parser.add_argument("--module", help="module of the goal; by default all are imported")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.module:
        importlib.import_module(args.module)
    else:
        load_goals()
    result = GOALS[args.id].measure(Size(quick=args.quick, seed=args.seed))
    print("\n" + json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
