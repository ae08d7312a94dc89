"""How long a trajectory-round takes, one thread, beside what the same work costs in C on this machine.

    python benchmarks/rollout.py --limit path/to/rollout_limit.c

K = 50, d = 10, float32. Every figure is the median of the repeats; the C program runs between them, so that the ratio
compares like with like on a noisy machine. Without a C program or a compiler the ratio is left out.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch

from torch_softucb import BanditProblem, EpsilonGreedy, LinTS, LinUCB, SoftUCBPolicy, rollout, synthetic_problem

ROUNDS = 128


def limit_program(source: Path, folder: Path) -> Path | None:
    if not source.exists() or shutil.which("gcc") is None:
        return None
    program = folder / "limit"
    subprocess.run(["gcc", "-O3", "-march=native", "-ffast-math", "-o", program, source, "-lm"], check=True)
    return program


def limit_ns(program: Path | None) -> float | None:
    if program is None:
        return None
    out = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return float(re.match(r"(\d+) ns", out).group(1))


def rollout_ns(policy, problem, gradient: bool) -> float:
    start = time.perf_counter()
    rollout(policy, problem, horizon=ROUNDS, generator=torch.Generator().manual_seed(1), gradient=gradient)
    return (time.perf_counter() - start) / ROUNDS / problem.means.shape[0] * 1e9


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--limit", type=Path, default=Path("../shared/limits/rollout_limit.c"), help="C program to compare with"
    )
    parser.add_argument("--repeats", type=int, default=7, help="of every figure (default 7)")
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 4096], help="trajectories (default 1024 4096)")
    parser.add_argument("--out", type=Path, default=Path("results/bench.json"), help="JSON file")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    cases = {
        "SoftUCB with gradient": (SoftUCBPolicy(10, beta_init=0.75), True),
        "SoftUCB": (SoftUCBPolicy(10, beta_init=0.75), False),
        "SoftUCB smooth": (SoftUCBPolicy(10, beta_init=0.75, coldness="smooth"), False),
        "LinUCB": (LinUCB(10), False),
        "LinTS": (LinTS(10, scale=0.3), False),
        "epsilon-greedy": (EpsilonGreedy(10), False),
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = limit_program(args.limit, Path(folder))
        print(f"{'policy':<24}{'B':>6}  {'arms':<7}{'ns per trajectory-round':>24}{'times C':>9}")
        for batch in args.batch:
            own = synthetic_problem(num_problems=batch, generator=torch.Generator().manual_seed(0))
            shared = BanditProblem(own.arms[0], own.means[0].expand(batch, -1).contiguous())
            for name, (policy, gradient) in cases.items():
                for kind, problem in (("own", own), ("shared", shared)):
                    rollout_ns(policy, problem, gradient)
                    pairs = [(rollout_ns(policy, problem, gradient), limit_ns(program)) for _ in range(args.repeats)]
                    ns = statistics.median(p for p, _ in pairs)
                    ratio = None if program is None else statistics.median(p / c for p, c in pairs)
                    rows.append({"policy": name, "batch": batch, "arms": kind, "ns": ns, "times_c": ratio})
                    print(
                        f"{name:<24}{batch:>6}  {kind:<7}{ns:>24.0f}{'' if ratio is None else f'{ratio:.2f}':>9}",
                        flush=True,
                    )
    if program is None:
        print(f"No ratio: {args.limit} or gcc is not there.")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1))
    print(f"JSON: {args.out}")


if __name__ == "__main__":
    main()
