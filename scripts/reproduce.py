"""Reproduce the paper's tables and figures, and write a report of what holds.

    python scripts/reproduce.py all            # everything, then results/REPORT.md
    python scripts/reproduce.py table1         # one part
    python scripts/reproduce.py all --quick    # small sizes: shows that it runs, not what holds

MovieLens and Jester are read from the folder that SOFTUCB_DATA names; without it their panels are left out, and said so.
"""

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parent.parent))  # experiments/ is in the repository, not in the package

from experiments.paper import figures, settings, studies
from experiments.paper.report import report
from experiments.tables import load, save


def table1(panels, scale, out, about):
    rows, curves = studies.table_1(scale, track)
    save(rows, out, "table1", about)
    save(curves, out, "appendix_f", about)
    figures.learning_curves(curves, out / "appendix_f.png")


def appendix_f(panels, scale, out, about):
    if not (out / "appendix_f.csv").exists():
        table1(panels, scale, out, about)
    figures.learning_curves(load(out, "appendix_f"), out / "appendix_f.png")


def figure1(panels, scale, out, about):
    rows = studies.figure_1(scale, track)
    save(rows, out, "figure1", about)
    figures.figure_1(rows, out / "figure1.png")


def figure2(panels, scale, out, about):
    finals, curves, sweeps = studies.figure_2(panels, scale, track)
    for rows, name in ((finals, "figure2"), (curves, "figure2_curves"), (sweeps, "figure2_sweeps")):
        save(rows, out, name, about)
    for variant in ("paper", "tuned"):
        figures.figure_2(curves, variant, out / f"figure2_{variant}.png")


def more(panels, scale, out, about):
    synthetic = [panel for panel in panels if panel.source == "synthetic"]
    for name, study, of, figure in (
        ("beta_curve", studies.beta_curve, panels, figures.beta_curve),
        ("eta", studies.eta_sensitivity, synthetic, figures.eta_sensitivity),
        ("cost", studies.cost, synthetic, None),
        ("targets", studies.targets, [panel for panel in panels if panel.source == "movielens"], None),
    ):
        if not of:
            continue
        rows = study(of, scale, track)
        save(rows, out, name, about)
        if figure is not None:
            figure(rows, out / f"{name}.png")


def write_report(panels, scale, out, about):
    tables = {name: load(out, name) for name in ("table1", "figure2", "beta_curve", "eta", "cost")}
    tables["targets"] = load(out, "targets") if any(panel.source == "movielens" for panel in panels) else []
    size = f"{scale.test} test problems a panel, T = {scale.horizon}"
    (out / "REPORT.md").write_text(report(tables, command=about["command"], scale=size))
    print(f"Report: {out / 'REPORT.md'}")


PARTS: dict[str, list[Callable[..., None]]] = {
    "table1": [table1],
    "appendix_f": [appendix_f],
    "figure1": [figure1],
    "figure2": [figure2],
    "more": [more],
    "report": [write_report],
    "all": [table1, figure1, figure2, more, write_report],
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    more_help = "; more: regret against beta, eta's sensitivity, cost of learning; report: from tables that are there"
    parser.add_argument("part", choices=PARTS, help="what to make" + more_help)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not what holds")
    parser.add_argument("--out", type=Path, help="folder (default results, with --quick results/quick)")
    args = parser.parse_args(argv)
    scale = settings.QUICK if args.quick else settings.FULL
    out = args.out or Path("results/quick" if args.quick else "results")
    out.mkdir(parents=True, exist_ok=True)
    panels = settings.PANELS
    if "SOFTUCB_DATA" not in os.environ:
        panels = [panel for panel in panels if panel.source == "synthetic"]
        print("SOFTUCB_DATA is not set: MovieLens and Jester are left out.")
    command = f"python scripts/reproduce.py {args.part}{' --quick' if args.quick else ''}"
    about = {"command": command, "torch": torch.__version__, "scale": dataclasses.asdict(scale)}
    about |= {"eta_offline": settings.ETA_OFFLINE, "eta_online": settings.ETA_ONLINE, "fail_prob": settings.FAIL_PROB}
    for make in PARTS[args.part]:
        make(panels, scale, out, about)


if __name__ == "__main__":
    main()
