"""Is learning worth it? Compare learned betas with tuned ones and tuned baselines in six settings; write results/WORTH.md.

    python scripts/worth.py all              # everything: about half an hour on 2 cores
    python scripts/worth.py bias             # one part: worth, bias, starts, coverage, report
    python scripts/worth.py all --quick      # small sizes: shows that it runs, not what holds

MovieLens and Jester are read from the folder named by SOFTUCB_DATA. Without it they are left out, with a notice.
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

from experiments import coverage, gradients
from experiments.sizes import FULL, QUICK
from experiments.tables import load, save
from experiments.worth.figures import worth_figure
from experiments.worth.report import report
from experiments.worth.settings import settings
from experiments.worth.study import worth

PARTS = ("worth", "bias", "starts", "coverage", "report")


def make(part: str, *, quick: bool, real: bool, out: Path, about: dict[str, Any]) -> None:
    """Make one part: its tables, or the report from the tables in ``out``."""
    size = QUICK if quick else FULL
    if part == "worth":
        rows, curves = [], []
        for setting in settings(real):
            new_rows, new_curves = worth(setting, size.worth, track)
            rows, curves = rows + new_rows, curves + new_curves
            save(rows, out, "worth", about)  # after each setting, so that an interrupted run keeps its results
            save(curves, out, "worth_curves", about)
    elif part == "bias":
        save(gradients.bias(size.gradients, track), out, "bias", about)
    elif part == "starts":
        synthetic = [setting for setting in settings(False) if setting.title.startswith("Synthetic")]
        save(gradients.starts(synthetic, size.starts, track), out, "starts", about)
    elif part == "coverage":
        cases = [*coverage.CASES, *(coverage.REAL_CASES if real else [])]
        save(coverage.coverage_claim(cases, size.coverage, track), out, "coverage", about)
    else:
        tables = {name: load(out, name) for name in ("worth", "bias", "starts", "coverage")}
        worth_figure(tables["worth"], load(out, "worth_curves"), out / "worth.png")
        scale = ", ".join(f"{name} {value}" for name, value in dataclasses.asdict(size.worth).items())
        (out / "WORTH.md").write_text(report(tables, command="make worth" + (" ARGS=--quick" if quick else ""), scale=scale))
        print(f"Report: {out / 'WORTH.md'}")


def main(argv: list[str] | None = None) -> None:
    """Run the part named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS, "all"], help="what to make (report: from the tables in the folder)")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not what holds")
    parser.add_argument("--out", type=Path, help="folder (default results, with --quick results/quick)")
    args = parser.parse_args(argv)
    out = args.out or Path("results/quick" if args.quick else "results")
    out.mkdir(parents=True, exist_ok=True)
    real = "SOFTUCB_DATA" in os.environ
    if not real:
        print("SOFTUCB_DATA is not set: MovieLens and Jester are left out.")
    command = f"python scripts/worth.py {args.part}{' --quick' if args.quick else ''}"
    about = {
        "command": command,
        "torch": torch.__version__,
        "budget": dataclasses.asdict((QUICK if args.quick else FULL).worth),
    }
    try:
        for part in PARTS if args.part == "all" else [args.part]:
            make(part, quick=args.quick, real=real, out=out, about=about)
    except FileNotFoundError as error:
        raise SystemExit(f"worth: {error}") from error


if __name__ == "__main__":
    main()
