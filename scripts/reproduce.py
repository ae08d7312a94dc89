"""Reproduce the paper's tables and figures, and report which of its claims hold.

    python scripts/reproduce.py all            # everything, then results/REPORT.md
    python scripts/reproduce.py table1         # one part
    python scripts/reproduce.py all --quick    # small sizes: shows that it runs, not what holds

MovieLens and Jester are read from the folder named by SOFTUCB_DATA. Without it their panels are left out, with a notice.
"""

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parent.parent))  # experiments/ is in the repository, not in the package

from experiments.paper import figures, settings, studies
from experiments.paper.report import report
from experiments.sizes import FULL, QUICK, Scale
from experiments.tables import load, save


class Job(NamedTuple):
    """Arguments of every part."""

    panels: list[settings.Panel]
    scale: Scale
    out: Path  # folder
    about: dict[str, Any]  # settings and command, saved next to each table


def table1(job: Job) -> None:
    """Learn the betas of Table 1; also make Appendix F, which shows the same runs."""
    rows, curves = studies.table_1(job.scale, track)
    save(rows, job.out, "table1", job.about)
    save(curves, job.out, "appendix_f", job.about)
    figures.learning_curves(curves, job.out / "appendix_f.png")


def appendix_f(job: Job) -> None:
    """Draw the learning curves; run Table 1 first if its tables are missing."""
    if not (job.out / "appendix_f.csv").exists():
        table1(job)
    figures.learning_curves(load(job.out, "appendix_f"), job.out / "appendix_f.png")


def figure1(job: Job) -> None:
    """Record beta and regret while learning."""
    rows = studies.figure_1(job.scale, track)
    save(rows, job.out, "figure1", job.about)
    figures.figure_1(rows, job.out / "figure1.png")


def figure2(job: Job) -> None:
    """Compare all policies, at the paper's settings and tuned."""
    finals, curves, sweeps = studies.figure_2(job.panels, job.scale, track)
    for rows, name in ((finals, "figure2"), (curves, "figure2_curves"), (sweeps, "figure2_sweeps")):
        save(rows, job.out, name, job.about)
    for variant in ("paper", "tuned"):
        figures.figure_2(curves, variant, job.out / f"figure2_{variant}.png")


def more(job: Job) -> None:
    """Run the studies that the paper does not have."""
    synthetic = [panel for panel in job.panels if panel.source == "synthetic"]
    for name, study, panels, figure in (
        ("beta_curve", studies.beta_curve, job.panels, figures.beta_curve),
        ("eta", studies.eta_sensitivity, synthetic, figures.eta_sensitivity),
        ("cost", studies.cost, synthetic, None),
        ("targets", studies.targets, [panel for panel in job.panels if panel.source == "movielens"], None),
    ):
        if not panels:
            continue
        rows = study(panels, job.scale, track)
        save(rows, job.out, name, job.about)
        if figure is not None:
            figure(rows, job.out / f"{name}.png")


def write_report(job: Job) -> None:
    """Write REPORT.md from the tables in the folder."""
    tables = {name: load(job.out, name) for name in ("table1", "figure2", "beta_curve", "eta", "cost")}
    tables["targets"] = load(job.out, "targets") if any(panel.source == "movielens" for panel in job.panels) else []
    size = f"{job.scale.test} test problems per panel, T = {job.scale.horizon}"
    (job.out / "REPORT.md").write_text(report(tables, command=job.about["command"], scale=size))
    print(f"Report: {job.out / 'REPORT.md'}")


PARTS: dict[str, list[Callable[[Job], None]]] = {
    "table1": [table1],
    "appendix_f": [appendix_f],
    "figure1": [figure1],
    "figure2": [figure2],
    "more": [more],
    "report": [write_report],
    "all": [table1, figure1, figure2, more, write_report],
}


def main(argv: list[str] | None = None) -> None:
    """Run the part named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    part_help = "more: regret against beta, sensitivity to eta, cost of learning; report: from the tables in the folder"
    parser.add_argument("part", choices=PARTS, help=f"what to make ({part_help})")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not what holds")
    parser.add_argument("--out", type=Path, help="folder (default results, with --quick results/quick)")
    args = parser.parse_args(argv)
    scale = (QUICK if args.quick else FULL).paper
    out = args.out or Path("results/quick" if args.quick else "results")
    out.mkdir(parents=True, exist_ok=True)
    panels = settings.PANELS
    if "SOFTUCB_DATA" not in os.environ:
        panels = [panel for panel in panels if panel.source == "synthetic"]
        print("SOFTUCB_DATA is not set: MovieLens and Jester are left out.")
    command = f"python scripts/reproduce.py {args.part}{' --quick' if args.quick else ''}"
    about = {"command": command, "torch": torch.__version__, "scale": dataclasses.asdict(scale)}
    about |= {"eta_offline": settings.ETA_OFFLINE, "eta_online": settings.ETA_ONLINE, "fail_prob": settings.FAIL_PROB}
    job = Job(panels, scale, out, about)
    try:
        for part in PARTS[args.part]:
            part(job)
    except FileNotFoundError as error:
        raise SystemExit(f"reproduce: {error}") from error


if __name__ == "__main__":
    main()
