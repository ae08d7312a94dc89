"""Interleaved measurement: each repeat runs all jobs of a comparison, so that a noisy machine slows all of them alike."""

import json
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.progress import track


def us(job: Callable[[], object], count: int = 1) -> float:
    """Return the time per call in microseconds, averaged over ``count`` calls."""
    start = time.perf_counter()
    for _ in range(count):
        job()
    return (time.perf_counter() - start) / count * 1e6


class Limit:
    """A C program that simulates the same rounds, as a reference for the speed of this machine.

    Args:
        source: C file; None, or no gcc: ``program`` is None and no ratio to C is reported.
        folder: for the compiled program.
    """

    def __init__(self, source: Path | None, folder: Path) -> None:
        self.program: Path | None = None
        if source is not None and source.exists() and shutil.which("gcc"):
            self.program = folder / "limit"
            flags = ["-O3", "-march=native", "-ffast-math"]
            subprocess.run(["gcc", *flags, "-o", self.program, source, "-lm"], check=True)

    def __call__(self) -> float | None:
        """Return the time per trajectory-round in ns, as printed by the program."""
        if self.program is None:
            return None
        out = subprocess.run([self.program], capture_output=True, text=True, check=True).stdout
        return float(re.match(r"(\d+) ns", out).group(1))  # type: ignore[union-attr]


# Peak memory of a separate process, in bytes. (getrusage would include its parent.)
PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
"""


class Peers:
    """Other libraries, measured by a process in a separate environment.

    Args:
        python: interpreter of that environment; if it does not exist, ``process`` is None and each call returns None.
    """

    def __init__(self, python: Path | None) -> None:
        self.process = None
        if python is not None and python.exists():
            command = [str(python), str(Path(__file__).with_name("peers.py"))]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, name: str) -> float | None:
        """Return the time per round of the named library in ns; None if it is not installed."""
        if self.process is None:
            return None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return None if answer is None else float(answer)

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.communicate()


def interleaved(jobs: Mapping[str, Callable[[], float | None]], repeats: int, title: str) -> dict[str, list[float]]:
    """Run all jobs once per repeat, after one repeat of warm-up.

    Args:
        jobs: functions that return a measurement, or None where they cannot run; the latter are left out.
        repeats: number of measurements per job.
        title: of the progress bar.

    Returns:
        Measurements of each job, in the order of the repeats.
    """
    warm_up = {name: job() for name, job in track(jobs.items(), f"{title}: warming up", transient=True)}
    available = [name for name, value in warm_up.items() if value is not None]
    times: dict[str, list[float]] = {name: [] for name in available}
    for _ in track(range(repeats), title, transient=True):
        for name in available:
            times[name].append(jobs[name]())  # type: ignore[arg-type]
    return times


def ratio(times: Mapping[str, list[float]], of: str, to: str) -> float | None:
    """Return the median over the repeats of one job's measurement divided by another's; None if one is missing."""
    if of not in times or to not in times:
        return None
    return statistics.median(a / b for a, b in zip(times[of], times[to], strict=True))


def table(title: str, header: list[str], rows: list[list[Any]]) -> None:
    """Print an aligned table; None is shown as a dash."""

    def text(cell: Any) -> str:
        if cell is None:
            return "-"
        if isinstance(cell, float):
            return f"{cell:,.0f}" if cell >= 100 else f"{cell:.2f}"
        return str(cell)

    cells = [header, *[[text(cell) for cell in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"\n{title}")
    for row in cells:
        print("  " + row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)))
