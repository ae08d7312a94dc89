"""Run the benchmarks: tables on the screen, JSON and plots in a folder.

    python -m benchmarks                       # everything, about a quarter of an hour
    python -m benchmarks --only rollout        # one part

All numbers are medians over the repeats, on one thread unless stated otherwise. Ratios are computed within a repeat.

To add the ratio to C, pass the source of a C program that simulates the same rounds (K = 50, d = 10) and prints
"<number> ns" per trajectory-round: --limit PATH, or the environment variable SOFTUCB_LIMIT.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks import changing, decision, prior, recommend, rollout, scaling
from benchmarks.measure import Limit, Peers

PARTS = ("rollout", "changing", "prior", "decision", "recommend", "scaling", "processes")


def main(argv: list[str] | None = None) -> None:
    """Run the parts named on the command line."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="parts to run (default: all)")
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each comparison (default 5)")
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 4096], help="trajectories (default 1024 4096)")
    limit_help = "source of a C program to compare with (default: $SOFTUCB_LIMIT, or none)"
    parser.add_argument("--limit", type=Path, default=os.environ.get("SOFTUCB_LIMIT"), help=limit_help)
    peers_help = "Python of the environment with the other libraries (default .venv-peers/bin/python)"
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers/bin/python"), help=peers_help)
    parser.add_argument(
        "--out", type=Path, default=Path("results/bench"), help="folder for JSON and plots (default results/bench)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how fast")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"torch": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability()}
    peers = Peers(args.peers)
    with tempfile.TemporaryDirectory() as folder:
        limit = Limit(args.limit, Path(folder))
        if limit.program is None:
            reason = "no program given (--limit or SOFTUCB_LIMIT)" if args.limit is None else f"no {args.limit}, or no gcc"
            print(f"No ratio to C: {reason}.")
        if peers.process is None:
            print(f"No ratio to JAX, numpy and other libraries: no {args.peers} (`make bench` creates it).")
        if "rollout" in args.only:
            result["rollout"] = rollout.run(limit, peers, args.batch, args.repeats, quick=args.quick)
            rollout.plot(result["rollout"], args.out / "rounds.png")
    if "changing" in args.only:
        result["changing"] = changing.run(args.repeats, quick=args.quick)
    if "prior" in args.only:
        result["prior"] = prior.run(quick=args.quick)
    if "decision" in args.only:
        result["decision"] = decision.run(peers, args.repeats, quick=args.quick)
    peers.close()
    if "recommend" in args.only:
        result["recommend"] = recommend.run(args.repeats, quick=args.quick)
    if "scaling" in args.only:
        result["scaling"] = scaling.sweep(args.repeats, quick=args.quick)
        scaling.plot(result["scaling"], args.out / "scaling.png")
        result["threads"] = scaling.threads(args.repeats, quick=args.quick)
    if "processes" in args.only and not args.quick:
        result["processes"] = scaling.processes(args.repeats)
    speed_up = {f"2 threads, {mode}": value for mode, value in result.get("threads", {}).items()}
    by_processes = result.get("processes", {}).get("ratio", {})
    speed_up |= {f"2 processes, {mode}": value for mode, value in by_processes.items()}
    if speed_up:
        scaling.plot_workers(speed_up, args.out / "workers.png")
    path = args.out / "bench.json"
    path.write_text(json.dumps(result, indent=1))
    print(f"\nJSON: {path}")


if __name__ == "__main__":
    main()
