"""Run the benchmarks: tables on the screen, JSON and plots in a folder.

    python -m benchmarks                       # everything, about a quarter of an hour
    python -m benchmarks --only rollout        # one part

Every figure is the median of the repeats, one thread unless it says otherwise; ratios are taken within a turn.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks import decision, recommend, rollout, scaling
from benchmarks.measure import Limit, Peers

PARTS = ("rollout", "decision", "recommend", "scaling", "processes")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="parts to run (default: all)")
    parser.add_argument("--repeats", type=int, default=5, help="turns of every comparison (default 5)")
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 4096], help="trajectories (default 1024 4096)")
    limit_help = "C program to compare with (default ../shared/limits/rollout_limit.c)"
    parser.add_argument("--limit", type=Path, default=Path("../shared/limits/rollout_limit.c"), help=limit_help)
    parser.add_argument(
        "--peers", type=Path, default=Path(".venv-peers/bin/python"), help="Python of the peers' environment"
    )
    parser.add_argument("--out", type=Path, default=Path("results/bench"), help="folder for JSON and plots")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how fast")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"torch": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability()}
    peers = Peers(args.peers)
    with tempfile.TemporaryDirectory() as folder:
        limit = Limit(args.limit, Path(folder))
        if limit.program is None:
            print(f"No ratio to C: {args.limit} or gcc is not there.")
        if peers.process is None:
            print(f"No ratio to JAX, numpy and other libraries: {args.peers} is not there (make bench makes it).")
        if "rollout" in args.only:
            result["rollout"] = rollout.run(limit, peers, args.batch, args.repeats, quick=args.quick)
            rollout.plot(result["rollout"], args.out / "rounds.png")
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
    more = {f"2 threads, {mode}": value for mode, value in result.get("threads", {}).items()}
    ratios = result.get("processes", {}).get("ratio", {})
    more |= {f"2 processes, {way}": value for way, value in ratios.items()}
    if more:
        scaling.plot_workers(more, args.out / "workers.png")
    path = args.out / "bench.json"
    path.write_text(json.dumps(result, indent=1))
    print(f"\nJSON: {path}")


if __name__ == "__main__":
    main()
