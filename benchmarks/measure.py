"""Measuring in turns: everything that is compared runs in every turn, so that a noisy machine troubles all alike."""

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
    """Microseconds of one call."""
    start = time.perf_counter()
    for _ in range(count):
        job()
    return (time.perf_counter() - start) / count * 1e6


class Limit:
    """The C program that marks how fast a trajectory-round can be on this machine."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.program: Path | None = None
        if source.exists() and shutil.which("gcc"):
            self.program = folder / "limit"
            flags = ["-O3", "-march=native", "-ffast-math"]
            subprocess.run(["gcc", *flags, "-o", self.program, source, "-lm"], check=True)

    def __call__(self) -> float | None:
        """ns a trajectory-round."""
        if self.program is None:
            return None
        out = subprocess.run([self.program], capture_output=True, text=True, check=True).stdout
        return float(re.match(r"(\d+) ns", out).group(1))  # type: ignore[union-attr]


# For a process of its own: bytes that it has held at most. (getrusage would answer for its parent too.)
PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
"""


class Peers:
    """Other libraries, in an environment of their own: a process that measures what it is told to."""

    def __init__(self, python: Path | None) -> None:
        self.process = None
        if python is not None and python.exists():
            command = [str(python), str(Path(__file__).with_name("peers.py"))]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, name: str) -> float | None:
        """ns a round."""
        if self.process is None:
            return None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return None if answer is None else float(answer)

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()


def in_turns(jobs: Mapping[str, Callable[[], float | None]], repeats: int, title: str) -> dict[str, list[float]]:
    """Every job once a turn, after a turn that does not count; a job that answers None is left out."""
    first = {name: job() for name, job in track(jobs.items(), f"{title}: warming up", transient=True)}
    there = [name for name, value in first.items() if value is not None]
    seen: dict[str, list[float]] = {name: [] for name in there}
    for _ in track(range(repeats), title, transient=True):
        for name in there:
            seen[name].append(jobs[name]())  # type: ignore[arg-type]
    return seen


def ratio(seen: Mapping[str, list[float]], of: str, to: str) -> float | None:
    """Median over the turns of one job's figure divided by another's."""
    if of not in seen or to not in seen:
        return None
    return statistics.median(a / b for a, b in zip(seen[of], seen[to], strict=True))


def table(title: str, header: list[str], rows: list[list[Any]]) -> None:
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
