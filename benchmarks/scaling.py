"""Growth of time and memory with B, K, d and T, and speed-up by threads and processes."""

import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from benchmarks.measure import PEAK, interleaved, ratio, table
from torch_softucb import SoftUCBPolicy, rollout, synthetic_problem

BASE = {"B": 1024, "K": 50, "d": 10, "T": 128}
SWEEPS: dict[str, tuple[dict[str, int], list[int]]] = {
    "B": ({}, [64, 256, 1024, 2048, 4096, 8192, 16384]),
    "K": ({"B": 256, "T": 64}, [25, 100, 400, 800, 1600, 3200]),
    "T": ({"B": 512}, [32, 128, 256, 512, 1024, 2048]),
    "d": ({"B": 64, "K": 1000, "T": 64}, [8, 16, 24, 32, 48, 64]),
}
QUICK: dict[str, tuple[dict[str, int], list[int]]] = {"B": ({"T": 8}, [16, 64])}
MEMORY = """
import torch
from torch_softucb import SoftUCBPolicy, synthetic_problem
from torch_softucb import rollout
torch.set_num_threads(1)
before = peak()
problem = synthetic_problem(num_problems={B}, num_arms={K}, dim={d})
rollout(SoftUCBPolicy({d}), problem, horizon={T}, gradient=True, compile={compile!r})
print((peak() - before) / 2**20)
"""


def _seconds(setting: dict[str, int], compile: bool | str) -> float:
    g = torch.Generator().manual_seed(0)
    problem = synthetic_problem(num_problems=setting["B"], num_arms=setting["K"], dim=setting["d"], generator=g)
    policy = SoftUCBPolicy(setting["d"], beta_init=0.75)
    start = time.perf_counter()
    rollout(policy, problem, horizon=setting["T"], generator=g, gradient=True, compile=compile)
    return time.perf_counter() - start


def _memory(setting: dict[str, int], compile: bool | str) -> float:
    script = PEAK + MEMORY.format(**setting, compile=compile)
    return float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def exponent(sizes: list[int], values: list[float]) -> float:
    """Return the exponent of a power law fitted to the larger half of the range."""
    keep = len(sizes) // 2 + 1
    return float(np.polyfit(np.log(sizes[-keep:]), np.log(values[-keep:]), 1)[0])


def sweep(repeats: int, *, quick: bool) -> dict[str, Any]:
    """Measure time and peak memory against each size."""
    results: dict[str, Any] = {}
    for axis, (change, sizes) in (QUICK if quick else SWEEPS).items():
        for mode, compile in (("eager", False), ("native", "native")):
            settings = {size: BASE | change | {axis: size} for size in sizes}
            jobs = {str(size): lambda s=setting, c=compile: _seconds(s, c) for size, setting in settings.items()}
            times = interleaved(jobs, repeats, f"{mode} against {axis}")  # type: ignore[arg-type]
            seconds = [median(times[str(size)]) for size in sizes]
            memory = [_memory(settings[size], compile) for size in sizes]
            power = exponent(sizes, seconds)
            results[f"{axis} {mode}"] = {
                "sizes": sizes,
                "seconds": seconds,
                "memory_mb": memory,
                "exponent": power,
                "setting": BASE | change,
            }
    rows = [
        [name, *(f"{v['sizes'][0]} to {v['sizes'][-1]}",), v["exponent"], v["memory_mb"][-1]] for name, v in results.items()
    ]
    table(
        "Growth (exponent of the larger half of the range)", ["against", "range", "time ~ size^", "MB at the largest"], rows
    )
    return results


def threads(repeats: int, *, quick: bool) -> dict[str, float | None]:
    """Measure the speed-up of a second thread."""
    setting = BASE | ({"B": 64, "T": 16} if quick else {"B": 4096})

    def timed(count: int, compile: bool | str) -> float:
        torch.set_num_threads(count)
        try:
            return _seconds(setting, compile)
        finally:
            torch.set_num_threads(1)

    speed_up: dict[str, float | None] = {}
    for mode, compile in (("eager", False), ("native", "native")):
        jobs = {str(n): lambda n=n, c=compile: timed(n, c) for n in (1, 2)}
        speed_up[mode] = ratio(interleaved(jobs, repeats, f"threads, {mode}"), "1", "2")  # type: ignore[arg-type]
    rows = [[mode, value] for mode, value in speed_up.items()]
    table(f"2 threads against 1 (B = {setting['B']})", ["backend", "speed-up"], rows)
    return speed_up


def processes(repeats: int) -> dict[str, Any]:
    """Measure DDP training with 2,048 trajectories per step: median time between steps, read from the event file."""
    root = Path(__file__).parent.parent
    config = root / "scripts/configs/multi_process.yaml"
    command = [sys.executable, str(root / "scripts/train.py"), "--config", str(config)]
    command += ["--data.trajectories", "2048", "--data.num_steps", "7", "--trainer.limit_val_batches", "0"]
    env = os.environ | {"OMP_NUM_THREADS": "1"}

    def step(devices: int, compile: str) -> float:
        alone = ["--trainer.strategy", "auto"] if devices == 1 else []
        full = [*command, "--trainer.devices", str(devices), "--model.init_args.compile", compile, *alone]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(full, cwd=folder, env=env, check=True, capture_output=True)
            (events,) = Path(folder).rglob("events.*")
            scalars = EventAccumulator(str(events)).Reload().Scalars("regret/cumulative")
        times = [scalar.wall_time for scalar in scalars]
        return median(later - earlier for earlier, later in itertools.pairwise(times))

    modes = {"eager": "false", "native": "native"}
    jobs = {f"{mode}, {n}": lambda n=n, c=compile: step(n, c) for mode, compile in modes.items() for n in (1, 2)}
    times = interleaved(jobs, repeats, "processes")  # type: ignore[arg-type]
    speed_up = {mode: ratio(times, f"{mode}, 1", f"{mode}, 2") for mode in modes}
    table(
        "DDP, one training step of 2,048 trajectories x 1,024 rounds",
        ["backend", "1 process, s", "2 processes, s", "speed-up"],
        [[mode, median(times[f"{mode}, 1"]), median(times[f"{mode}, 2"]), speed_up[mode]] for mode in modes],
    )
    return {"seconds": {name: median(values) for name, values in times.items()}, "ratio": speed_up}


def plot_workers(speed_up: dict[str, float | None], out: Path) -> None:
    """Draw the speed-up of a second thread or process as bars."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.2), layout="constrained")
    ax = figure.add_subplot()
    drawn = ax.bar(list(speed_up), [value or 0 for value in speed_up.values()], color="#3b6fb6", width=0.5)
    ax.bar_label(drawn, fmt="%.2f", padding=2)
    ax.axhline(2, color="#9aa5b1", linestyle="--", linewidth=1)
    ax.set(ylabel="speed-up", ylim=(0, 2.3), title="A second thread or process (dashed: ideal)")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=110)


def plot(results: dict[str, Any], out: Path) -> None:
    """Draw time and memory against each size, from the results of :func:`sweep`."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    swept = list(dict.fromkeys(name.split()[0] for name in results))
    figure = Figure(figsize=(3.75 * len(swept), 6.5), layout="constrained")
    axes = figure.subplots(2, len(swept), squeeze=False)
    for column, axis in enumerate(swept):
        for mode, colour in (("eager", "#3b6fb6"), ("native", "#c8553d")):
            result = results[f"{axis} {mode}"]
            for row, key in enumerate(("seconds", "memory_mb")):
                label = f"{mode}, ~ {axis}^{result['exponent']:.2f}" if row == 0 else mode
                axes[row, column].plot(result["sizes"], result[key], "o-", color=colour, label=label)
        fixed = ", ".join(f"{name} = {value}" for name, value in result["setting"].items() if name != axis)
        axes[0, column].set(title=fixed, xscale="log", yscale="log", ylabel="seconds" if column == 0 else "")
        axes[1, column].set(xscale="log", yscale="log", xlabel=axis, ylabel="MB above the import" if column == 0 else "")
        axes[0, column].legend(frameon=False, fontsize=9)
        for ax in axes[:, column]:
            ax.set_xticks(result["sizes"], [str(size) for size in result["sizes"]], fontsize=8, rotation=45)
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            ax.minorticks_off()
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle("SoftUCB with gradient terms, float32, one thread: time and memory of a rollout")
    figure.savefig(out, dpi=110)
