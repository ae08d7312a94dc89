"""The report on the reliability goals: results/TRUST.md."""

import importlib.metadata
import os
import platform
from pathlib import Path

from experiments.tables import markdown_table
from experiments.trust.goal import Size
from experiments.trust.runner import Outcome

PACKAGES = ("torch", "numpy", "lightning", "pyarrow", "safetensors", "hypothesis", "pytest")


def machine() -> str:
    """Describe the processor, its cores, the memory, the system and the versions of the software."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next((line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line), model)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30 if hasattr(os, "sysconf") else 0.0
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GB of memory, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, {versions}"
    )


def table(outcomes: list[Outcome]) -> str:
    """Return the table of goals as Markdown: claim, figures, met or not."""
    rows = [[o.goal.id, o.goal.claim, _cell(o.result.measured), "yes" if o.result.met else "**no**"] for o in outcomes]
    return markdown_table(["", "goal", "measured", "met"], rows)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _again(outcomes: list[Outcome]) -> str:
    """Say which goals were measured after the others."""
    first = min((o.run for o in outcomes), default="")
    later = [o.goal.id for o in outcomes if o.run != first]
    return f" {', '.join(later)} measured again after the rest, when something was changed." if later else ""


def report(outcomes: list[Outcome], *, command: str, size: Size) -> str:
    """Return the whole report as Markdown.

    Args:
        outcomes: results, in the order of the rows.
        command: what was run.
        size: how much was measured.
    """
    met = sum(o.result.met for o in outcomes)
    small = " Small sizes: this shows that the measurements run, not what holds." if size.quick else ""
    methods = "\n".join(f"- **{o.goal.id}** ({o.seconds:.0f} s). {o.goal.method}" for o in outcomes)
    return f"""# Can it be trusted?

Each row below is something that this library promises about reliability: nothing lost, nothing wrong silently, nothing from
a file executed. Every promise is measured, not argued; {met} of {len(outcomes)} are kept.{small}

Made by `{command}`, which exits with an error if a goal is not met.{_again(outcomes)}
All random choices come from seed {size.seed}; tests of randomness also use the seeds that their row names.
Machine: {machine()}.

## Terms
A *policy* keeps *statistics* per bandit: the Gram matrix V = alpha I + sum x x^T, the vector b = sum x y, a count, and
a cached inverse of V; the *width* of an arm x is sqrt(x^T V^-1 x). A *head* serves a recommender: it draws items with
known probabilities (*propensities*), gives each decision an id and learns from its reward later. The *decision log*
stores decisions and rewards; what its `commit` has returned for is *acknowledged*. *Bitwise* means that all bytes are
equal. `kill -9` ends a process at once, at any point, without cleaning up.

## Results
{table(outcomes)}

## How each goal is measured
{methods}
"""
