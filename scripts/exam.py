"""Play the exam without a number to choose: UCI tables as bandits; write results/EXAM.md.

    python scripts/exam.py                   # six tables, 3,000 and 10,000 rounds, five shuffles: about an hour
    python scripts/exam.py --quick           # two tables, 100 rounds: shows that it runs, not what holds

The tables are read from the folder uci in the folder named by SOFTUCB_DATA.
"""

import argparse
import os
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # experiments/ is in the repository, not in the package

from experiments.exam.report import report
from experiments.exam.settings import SETS
from experiments.exam.study import exam, units
from experiments.tables import Rows, save


def main(argv: list[str] | None = None) -> None:
    """Play the exam and write its tables and its report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not what holds")
    parser.add_argument("--out", type=Path, help="folder (default results, with --quick results/quick)")
    args = parser.parse_args(argv)
    if "SOFTUCB_DATA" not in os.environ:
        raise SystemExit("exam: SOFTUCB_DATA must name a folder with the tables in uci/, and is not set")
    torch.set_num_threads(1)
    out = args.out or Path("results/quick" if args.quick else "results")
    out.mkdir(parents=True, exist_ok=True)
    command = "make exam" + (" ARGS=--quick" if args.quick else "")
    about = {"command": command, "torch": torch.__version__}
    sets, horizons = (("mushroom", "waveform5000"), (100,)) if args.quick else (SETS, (3000, 10_000))
    rows: Rows = []
    for horizon in horizons:
        for new in exam(sets, horizon):
            rows += new
            print(f"{new[0]['set']}, {new[0]['rounds']} rounds: done", flush=True)
            save(rows, out, "exam", about)  # after each table, so that an interrupted run keeps its results
    in_units = units(sets, horizons[0])
    save(in_units, out, "exam_units", about)
    (out / "EXAM.md").write_text(report(rows, in_units, command=command))
    print(f"Report: {out / 'EXAM.md'}")


if __name__ == "__main__":
    main()
