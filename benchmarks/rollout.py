"""Time of a trajectory-round compared with C, JAX, numpy and other libraries: K = 50, d = 10, float32, one thread."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import Limit, Peers, interleaved, ratio, table
from torch_softucb import BanditProblem, EpsilonGreedy, LinTS, LinUCB, SoftUCBPolicy, rollout, synthetic_problem

ROUNDS = 128
MODES: dict[str, bool | str] = {"eager": False, "torch.compile": True, "native": "native"}


def rollout_ns(policy: Any, problem: BanditProblem, *, gradient: bool, compile: bool | str, rounds: int = ROUNDS) -> float:
    """Return the time per trajectory-round in ns."""
    start = time.perf_counter()
    generator = torch.Generator().manual_seed(1)
    rollout(policy, problem, horizon=rounds, generator=generator, gradient=gradient, compile=compile)
    return (time.perf_counter() - start) / rounds / problem.batch_shape.numel() * 1e9


def problems(batch: int) -> dict[str, BanditProblem]:
    """Return ``batch`` problems that share one set of arms, and ``batch`` problems with separate arms."""
    own = synthetic_problem(num_problems=batch, generator=torch.Generator().manual_seed(0))
    return {"shared": BanditProblem(own.arms[0], own.means[:1].expand(batch, -1).contiguous()), "own": own}


FIRST = """
import sys, time, torch
from torch_softucb import SoftUCBPolicy, synthetic_problem
from torch_softucb import rollout
problem, policy = synthetic_problem(num_problems=1024), SoftUCBPolicy(10)
start = time.perf_counter()
rollout(policy, problem, horizon=2, gradient=True, compile={compile!r})
print(time.perf_counter() - start)
"""


def first_call_s(compile: bool | str) -> float:
    """Return the time of the first call in a new process with empty caches, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCH_EXTENSIONS_DIR": folder}
        command = [sys.executable, "-c", FIRST.format(compile=compile)]
        return float(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)


def run(limit: Limit, peers: Peers, batches: list[int], repeats: int, *, quick: bool) -> dict[str, Any]:
    """Measure and print all tables; return the numbers."""
    modes = {mode: compile for mode, compile in MODES.items() if not (quick and compile is True)}
    rows: list[dict[str, Any]] = []
    for batch in batches:
        jax = "jax" if batch < 4096 else "jax 4096"
        jobs: dict[str, Any] = {"C": limit, "JAX": lambda jax=jax: peers(jax)}
        for arms, problem in problems(batch).items():
            for mode, compile in modes.items():
                policy = SoftUCBPolicy(10, beta_init=0.75)
                jobs[f"SoftUCB, {arms} arms, {mode}"] = lambda p=policy, q=problem, c=compile: rollout_ns(
                    p, q, gradient=True, compile=c
                )
        rows += _rows(interleaved(jobs, repeats, f"SoftUCB with gradient, B = {batch}"), batch, ("C", "JAX"))
    names = ("numpy", "mabwiser", "contextualbandits", "river")
    jobs = {name: lambda name=name: peers(name) for name in names} | {"C": limit}
    problem = problems(1024)["shared"]
    for name, policy in {
        "LinUCB": LinUCB(10),
        "LinTS": LinTS(10, scale=0.3),
        "epsilon-greedy": EpsilonGreedy(10),
        "SoftUCB": SoftUCBPolicy(10, beta_init=0.75),
    }.items():
        for mode in ("eager", "native"):
            jobs[f"{name}, {mode}"] = lambda p=policy, c=MODES[mode]: rollout_ns(p, problem, gradient=False, compile=c)
    times = interleaved(jobs, repeats, "other policies and libraries, B = 1024")
    rows += _rows(times, 1024, ("C",))
    for row in rows:
        if row["what"] in ("LinUCB, eager", "LinUCB, native"):
            row["faster_than"] = {name: ratio(times, name, row["what"]) for name in names}
    table(
        "A trajectory-round (K = 50, d = 10, float32, one thread)",
        ["what", "B", "ns", "ratio to C", "ratio to JAX"],
        [[row["what"], row["batch"], row["ns"], row["times"].get("C"), row["times"].get("JAX")] for row in rows],
    )
    faster = [row for row in rows if "faster_than" in row]
    table(
        "Speed-up over one LinUCB round of",
        ["ours", *names],
        [[row["what"], *(row["faster_than"][name] for name in names)] for row in faster],
    )
    first = {} if quick else {mode: first_call_s(compile) for mode, compile in modes.items()}
    if first:
        table("First call, with empty caches", ["backend", "s"], [[mode, value] for mode, value in first.items()])
    return {"rounds": rows, "first_call_s": first}


def _rows(times: dict[str, list[float]], batch: int, others: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {
            "what": name,
            "batch": batch,
            "ns": statistics.median(values),
            "times": {other: ratio(times, name, other) for other in others},
        }
        for name, values in times.items()
    ]


def plot(result: dict[str, Any], out: Path) -> None:
    """Draw the time per round as bars on a log scale, ours in red."""
    from matplotlib.figure import Figure

    last = {
        f"{row['what']}, B = {row['batch']}" if "SoftUCB" in row["what"] or row["what"] == "JAX" else row["what"]: row
        for row in result["rounds"]
    }
    bars = sorted(((name, row["ns"]) for name, row in last.items()), key=lambda bar: -bar[1])
    ours = tuple(MODES)
    colours = ["#c8553d" if name.split(", B")[0].endswith(ours) else "#9aa5b1" for name, _ in bars]
    figure = Figure(figsize=(9, 0.3 * len(bars) + 1.2), layout="constrained")
    ax = figure.add_subplot()
    drawn = ax.barh([name for name, _ in bars], [ns for _, ns in bars], color=colours)
    ax.bar_label(drawn, [f"{ns:,.0f} ns" for _, ns in bars], padding=3, fontsize=8)
    ax.set(xscale="log", xlabel="ns per round (K = 50, d = 10), one thread", title="One round, ours (red) and others (grey)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.15)
    figure.savefig(out, dpi=110)
