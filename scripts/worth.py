"""Is learning worth it? Learned betas against tuned ones and tuned rivals, in six settings; writes results/WORTH.md.

    python scripts/worth.py all              # everything: about half an hour on 2 cores
    python scripts/worth.py bias             # one part: worth, bias, starts, coverage, report
    python scripts/worth.py all --quick      # small sizes: shows that it runs, not what holds

MovieLens and Jester are read from the folder that SOFTUCB_DATA names; without it they are left out, and said so.
"""

import argparse
import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import torch
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parent.parent))  # experiments/ is in the repository, not in the package

from experiments import coverage
from experiments import gradients as estimators
from experiments.tables import load, save
from experiments.worth import study as worth
from experiments.worth.report import report, worth_figure
from experiments.worth.settings import settings

PARTS = ("worth", "bias", "starts", "coverage", "report")


def make(part: str, *, quick: bool, real: bool, out: Path, about: dict[str, Any]) -> None:
    budget = worth.QUICK if quick else worth.FULL
    if part == "worth":
        rows, curves = [], []
        for setting in settings(real):
            found, lines = worth.worth(setting, budget, track)
            rows, curves = rows + found, curves + lines
            save(rows, out, "worth", about)  # what is there so far is not lost
            save(curves, out, "worth_curves", about)
    elif part == "bias":
        save(estimators.bias(estimators.QUICK if quick else estimators.FULL, track), out, "bias", about)
    elif part == "starts":
        kept = [setting for setting in settings(False) if setting.title.startswith("Synthetic")]
        save(estimators.starts(kept, budget if quick else estimators.STARTS_BUDGET, track), out, "starts", about)
    elif part == "coverage":
        several = [*coverage.SETTINGS, *(coverage.REAL if real else [])]
        small = {"sweep": 8, "test": 8} if quick else {}
        save(coverage.coverage_claim(several[:2] if quick else several, track, **small), out, "coverage", about)
    else:
        tables = {name: load(out, name) for name in ("worth", "bias", "starts", "coverage")}
        worth_figure(tables["worth"], load(out, "worth_curves"), out / "worth.png")
        scale = ", ".join(f"{name} {value}" for name, value in dataclasses.asdict(budget).items())
        (out / "WORTH.md").write_text(report(tables, command="make worth" + (" ARGS=--quick" if quick else ""), scale=scale))
        print(f"Report: {out / 'WORTH.md'}")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS, "all"], help="what to make; report: from tables that are there")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not what holds")
    parser.add_argument("--out", type=Path, help="folder (default results, with --quick results/quick)")
    args = parser.parse_args(argv)
    out = args.out or Path("results/quick" if args.quick else "results")
    out.mkdir(parents=True, exist_ok=True)
    real = "SOFTUCB_DATA" in os.environ
    if not real:
        print("SOFTUCB_DATA is not set: MovieLens and Jester are left out.")
    command = f"python scripts/worth.py {args.part}{' --quick' if args.quick else ''}"
    about = {"command": command, "torch": torch.__version__, "budget": dataclasses.asdict(worth.FULL)}
    for part in PARTS if args.part == "all" else [args.part]:
        make(part, quick=args.quick, real=real, out=out, about=about)


if __name__ == "__main__":
    main()
