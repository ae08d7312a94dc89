"""How time and memory grow with B, K, d and T, and what threads and processes bring."""

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

from benchmarks.measure import PEAK, in_turns, ratio, table
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
    """Of a power law through the larger half of the range."""
    keep = len(sizes) // 2 + 1
    return float(np.polyfit(np.log(sizes[-keep:]), np.log(values[-keep:]), 1)[0])


def sweep(repeats: int, *, quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for axis, (change, sizes) in (QUICK if quick else SWEEPS).items():
        for mode, compile in (("eager", False), ("native", "native")):
            settings = {size: BASE | change | {axis: size} for size in sizes}
            jobs = {str(size): lambda s=setting, c=compile: _seconds(s, c) for size, setting in settings.items()}
            seen = in_turns(jobs, repeats, f"{mode} against {axis}")  # type: ignore[arg-type]
            seconds = [median(seen[str(size)]) for size in sizes]
            memory = [_memory(settings[size], compile) for size in sizes]
            power = exponent(sizes, seconds)
            found[f"{axis} {mode}"] = {
                "sizes": sizes,
                "seconds": seconds,
                "memory_mb": memory,
                "exponent": power,
                "setting": BASE | change,
            }
    rows = [
        [name, *(f"{v['sizes'][0]} to {v['sizes'][-1]}",), v["exponent"], v["memory_mb"][-1]] for name, v in found.items()
    ]
    table("Growth (exponent of the larger half of the range)", ["against", "range", "time ~ size^", "MB at the end"], rows)
    return found


def threads(repeats: int, *, quick: bool) -> dict[str, float | None]:
    setting = BASE | ({"B": 64, "T": 16} if quick else {"B": 4096})

    def timed(count: int, compile: bool | str) -> float:
        torch.set_num_threads(count)
        try:
            return _seconds(setting, compile)
        finally:
            torch.set_num_threads(1)

    found: dict[str, float | None] = {}
    for mode, compile in (("eager", False), ("native", "native")):
        jobs = {str(n): lambda n=n, c=compile: timed(n, c) for n in (1, 2)}
        found[mode] = ratio(in_turns(jobs, repeats, f"threads, {mode}"), "1", "2")  # type: ignore[arg-type]
    rows = [[mode, value] for mode, value in found.items()]
    table(f"2 threads against 1 (B = {setting['B']})", ["what", "times faster"], rows)
    return found


def processes(repeats: int) -> dict[str, Any]:
    """Lightning's DDP, 2,048 trajectories a step: median time between the steps of a run, as its event file tells it."""
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
            told = EventAccumulator(str(events)).Reload().Scalars("regret/cumulative")
        times = [event.wall_time for event in told]
        return median(later - earlier for earlier, later in itertools.pairwise(times))

    ways = {"eager": "false", "native": "native"}
    jobs = {f"{way}, {n}": lambda n=n, c=compile: step(n, c) for way, compile in ways.items() for n in (1, 2)}
    seen = in_turns(jobs, repeats, "processes")  # type: ignore[arg-type]
    times = {way: ratio(seen, f"{way}, 1", f"{way}, 2") for way in ways}
    table(
        "DDP, a training step of 2,048 trajectories x 1,024 rounds",
        ["way to play", "1 process, s", "2 processes, s", "times faster"],
        [[way, median(seen[f"{way}, 1"]), median(seen[f"{way}, 2"]), times[way]] for way in ways],
    )
    return {"seconds": {name: median(values) for name, values in seen.items()}, "ratio": times}


def plot_workers(more: dict[str, float | None], out: Path) -> None:
    """What a second thread or process brings."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
    drawn = ax.bar(list(more), [value or 0 for value in more.values()], color="#3b6fb6", width=0.5)
    ax.bar_label(drawn, fmt="%.2f", padding=2)
    ax.axhline(2, color="#9aa5b1", linestyle="--", linewidth=1)
    ax.set(ylabel="times as fast as one", ylim=(0, 2.3), title="A second thread or process (dashed: perfect)")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=110)
    plt.close(figure)


def plot(found: dict[str, Any], out: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    swept = list(dict.fromkeys(name.split()[0] for name in found))
    figure, axes = plt.subplots(2, len(swept), figsize=(3.75 * len(swept), 6.5), layout="constrained", squeeze=False)
    for column, axis in enumerate(swept):
        for mode, colour in (("eager", "#3b6fb6"), ("native", "#c8553d")):
            got = found[f"{axis} {mode}"]
            for row, key in enumerate(("seconds", "memory_mb")):
                label = f"{mode}, ~ {axis}^{got['exponent']:.2f}" if row == 0 else mode
                axes[row, column].plot(got["sizes"], got[key], "o-", color=colour, label=label)
        fixed = ", ".join(f"{name} = {value}" for name, value in got["setting"].items() if name != axis)
        axes[0, column].set(title=fixed, xscale="log", yscale="log", ylabel="seconds" if column == 0 else "")
        axes[1, column].set(xscale="log", yscale="log", xlabel=axis, ylabel="MB above the import" if column == 0 else "")
        axes[0, column].legend(frameon=False, fontsize=9)
        for ax in axes[:, column]:
            ax.set_xticks(got["sizes"], [str(size) for size in got["sizes"]], fontsize=8, rotation=45)
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            ax.minorticks_off()
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle("SoftUCB with gradient terms, float32, one thread: time and memory of a rollout")
    figure.savefig(out, dpi=110)
    plt.close(figure)
