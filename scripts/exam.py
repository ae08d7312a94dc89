"""Play the exam without a number to choose: UCI tables as bandits; write results/EXAM.md.

    python scripts/exam.py all               # six tables, 3,000 and 10,000 rounds, five shuffles: about 40 minutes
    python scripts/exam.py all --quick       # two tables, 100 rounds: shows that it runs, not what holds
    python scripts/exam.py published         # one part

The parts are tables, found, units, vowpal, single, panels, tuned, published and report.

The tables are read from the folder uci in the folder named by SOFTUCB_DATA. Vowpal Wabbit is played by the interpreter given
with --peers, if there is one; `make exam` installs it in a separate environment.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # experiments/ is in the repository, not in the package

from experiments.exam.figures import exam_figure
from experiments.exam.panels import panels
from experiments.exam.published import published
from experiments.exam.report import report
from experiments.exam.settings import HORIZONS, SETS, policies
from experiments.exam.study import exam, found, single, units, vowpal
from experiments.exam.tuned import against_tuned
from experiments.tables import Rows, load, save
from experiments.worth.settings import settings

PARTS = ("tables", "found", "units", "vowpal", "single", "panels", "tuned", "published", "report")
OTHERS = ("found", "vowpal", "single", "panels", "tuned", "published")


def make(part: str, *, quick: bool, peers: Path, out: Path, about: dict[str, Any]) -> None:
    """Make one part: its table, or the report from the tables in ``out``."""
    sets, horizons = (("mushroom", "waveform5000"), (100,)) if quick else (SETS, HORIZONS)
    rows: Rows = []
    if part == "tables":
        for horizon in horizons:
            for new in exam(sets, horizon):
                rows += new
                print(f"{new[0]['set']}, {new[0]['rounds']} rounds: done", flush=True)
                save(rows, out, "exam", about)  # after each table, so that an interrupted run keeps its results
    elif part == "found":
        save(found(sets, horizons[0]), out, "exam_found", about)
    elif part == "units":
        save(units(sets, horizons[0]), out, "exam_units", about)
    elif part == "vowpal":
        if not peers.exists():
            print(f"{peers} is not there: Vowpal Wabbit is left out.")
            return
        for horizon in horizons:
            rows += vowpal(peers, sets, horizon)
        save(rows, out, "exam_vowpal", about)
    elif part == "single":
        save([row for horizon in horizons for row in single(sets, horizon)], out, "exam_single", about)
    elif part == "panels":
        save(panels(count=8, horizon=32) if quick else panels(), out, "exam_panels", about)
    elif part == "tuned":
        count, horizon = (64, 32) if quick else (16384, 1024)
        save(against_tuned(settings(True), Path("results"), count=count, horizon=horizon), out, "exam_tuned", about)
    elif part == "published":
        makers = {name: make for name, make in policies().items() if not name.startswith("auto without")}
        sizes = {"rounds": 20, "runs": 4} if quick else {}
        save(published(makers, **sizes), out, "exam_published", about)
    else:
        rows, others = load(out, "exam"), {}
        for name in OTHERS:
            others[name] = load(out, f"exam_{name}") if (out / f"exam_{name}.csv").exists() else []
        exam_figure(rows, out / "exam.png")
        (out / "EXAM.md").write_text(report(rows, load(out, "exam_units"), command=about["command"], **others))
        print(f"Report: {out / 'EXAM.md'}")


def main(argv: list[str] | None = None) -> None:
    """Make the part named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS, "all"], help="what to make (report: from the tables in the folder)")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not what holds")
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers/bin/python"), help="interpreter with vowpalwabbit")
    parser.add_argument("--out", type=Path, help="folder (default results, with --quick results/quick)")
    args = parser.parse_args(argv)
    if "SOFTUCB_DATA" not in os.environ:
        raise SystemExit("exam: SOFTUCB_DATA must name a folder with the tables in uci/, and is not set")
    torch.set_num_threads(1)
    out = args.out or Path("results/quick" if args.quick else "results")
    out.mkdir(parents=True, exist_ok=True)
    about = {"command": "make exam" + (" ARGS=--quick" if args.quick else ""), "torch": torch.__version__}
    for part in PARTS if args.part == "all" else [args.part]:
        make(part, quick=args.quick, peers=args.peers, out=out, about=about)


if __name__ == "__main__":
    main()
