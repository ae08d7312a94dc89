"""Measure the reliability goals of the library, print them as a table and write results/TRUST.md.

    python scripts/trust.py                  # everything: at most 45 minutes on 2 cores
    python scripts/trust.py --quick          # small sizes: under 5 minutes
    python scripts/trust.py --only R8,R10    # some goals, whose rows are replaced in the report of the last whole run

Exits with status 1 if a goal is not met.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent))  # experiments/ is in the repository, not in the package

from experiments.trust.goal import Size
from experiments.trust.report import report
from experiments.trust.runner import Outcome, load_goals, load_outcomes, measure_all, save_outcomes


def main(argv: list[str] | None = None) -> int:
    """Measure the goals named on the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not what holds")
    parser.add_argument("--only", help="goals to measure, separated by commas: R8,R10")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random choices (default 0)")
    parser.add_argument("--out", type=Path, help="folder of TRUST.md (default results, with --quick results/quick)")
    args = parser.parse_args(argv)
    known = [goal.id for goal in load_goals()]
    ids = args.only.split(",") if args.only else known
    if unknown := [id for id in ids if id not in known]:
        parser.error(f"no goal {', '.join(unknown)}; there are {', '.join(known)}")
    start = time.monotonic()
    print(f"Measuring {len(ids)} goals, two at a time where no time is measured.", flush=True)

    def progress(outcome: Outcome) -> None:
        met = "met" if outcome.result.met else "NOT MET"
        at = time.monotonic() - start
        print(f"[{at:6.0f} s] {outcome.goal.id} {met} ({outcome.seconds:.0f} s): {outcome.result.measured}", flush=True)

    size = Size(quick=args.quick, seed=args.seed)
    run = time.strftime("%Y-%m-%d %H:%M")
    new = {o.goal.id: replace(o, run=run) for o in measure_all(ids, size, report=progress)}
    _print(list(new.values()))
    out = args.out or Path("results/quick" if args.quick else "results")
    out.mkdir(parents=True, exist_ok=True)
    last = {o.goal.id: o for o in load_outcomes(out / "trust.json")} if args.only else {}
    outcomes = [(last | new)[id] for id in known if id in last | new]
    command = "make trust" + (" ARGS=--quick" if args.quick else "")
    save_outcomes(out / "trust.json", outcomes)
    (out / "TRUST.md").write_text(report(outcomes, command=command, size=size))
    print(f"Report: {out / 'TRUST.md'}")
    missed = [outcome.goal.id for outcome in outcomes if not outcome.result.met]
    print(f"Not met: {', '.join(missed)}." if missed else f"All {len(outcomes)} goals are met.")
    return 1 if missed else 0


def _print(outcomes: list[Outcome]) -> None:
    table = Table(show_lines=True)
    for column in ("", "goal", "measured", "met"):
        table.add_column(column)
    for outcome in outcomes:
        table.add_row(outcome.goal.id, outcome.goal.claim, outcome.result.measured, "yes" if outcome.result.met else "NO")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
