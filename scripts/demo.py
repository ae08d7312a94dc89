"""Play SoftUCB and three baselines on the paper's synthetic problem (Sec. 5); print regret, draw the curves.

    python scripts/demo.py
    python scripts/demo.py --num-problems 64 --horizon 256 --out /tmp/demo

All policies meet the same problems and the same reward noise.
"""

import argparse
import math
import time
from pathlib import Path

import matplotlib
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from torch_softucb import EpsilonGreedy, LinTS, LinUCB, SoftUCBPolicy, rollout, synthetic_problem

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-problems", type=int, default=512, help="random problems, each a trajectory (default 512)")
    parser.add_argument("--horizon", type=int, default=1024, help="rounds T (default 1024)")
    parser.add_argument("--dim", type=int, default=10, help="features d (default 10)")
    parser.add_argument("--beta", type=float, default=0.6, help="SoftUCB's confidence width, not learned yet (default 0.6)")
    parser.add_argument("--seed", type=int, default=0, help="of problems, noise and draws (default 0)")
    parser.add_argument(
        "--out", type=Path, default=Path("results/demo"), help="folder for regret.png (default results/demo)"
    )
    return parser.parse_args(argv)


def policies(dim: int, horizon: int, beta: float):
    theory = {"subgaussian_r": 0.5, "fail_prob": 0.01, "horizon": horizon}
    return {
        f"SoftUCB, beta {beta:g}": SoftUCBPolicy(dim, beta_init=beta),
        "LinUCB, Eq. 5's radius": LinUCB.theoretical(dim, **theory),
        "LinTS, Agrawal & Goyal": LinTS.theoretical(dim, **theory),
        "epsilon-greedy, 0.05": EpsilonGreedy(dim, epsilon=0.05),
    }


def play(args: argparse.Namespace, console: Console) -> dict[str, tuple[torch.Tensor, float]]:
    generator = torch.Generator().manual_seed(args.seed)
    problem = synthetic_problem(num_problems=args.num_problems, dim=args.dim, generator=generator)
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    curves = {}
    with Progress(*columns, console=console) as bars:
        for name, policy in policies(args.dim, args.horizon, args.beta).items():
            bar = bars.add_task(name, total=args.horizon)
            start = time.perf_counter()
            trajectory = rollout(
                policy,
                problem,
                horizon=args.horizon,
                generator=torch.Generator().manual_seed(args.seed + 1),
                progress=lambda done, _, bar=bar: bars.update(bar, completed=done),
            )
            curves[name] = (trajectory.cumulative_regret, time.perf_counter() - start)
    return curves


def show(curves: dict[str, tuple[torch.Tensor, float]], console: Console) -> None:
    table = Table("policy", title="Cumulative regret, mean over problems (lower is better)")
    for column in ("regret", "standard error", "against SoftUCB", "seconds"):
        table.add_column(column, justify="right")
    first = next(iter(curves.values()))[0][-1].mean()
    for name, (curve, seconds) in curves.items():
        last = curve[-1]
        error = last.std().item() / math.sqrt(len(last)) if len(last) > 1 else math.nan
        table.add_row(name, f"{last.mean():.1f}", f"{error:.1f}", f"{last.mean() / first:.1f}x", f"{seconds:.1f}")
    console.print(table)


def draw(curves: dict[str, tuple[torch.Tensor, float]], args: argparse.Namespace) -> Path:
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    rounds = range(1, args.horizon + 1)
    for name, (curve, _) in curves.items():
        mean, band = curve.mean(1), 1.96 * curve.std(1, correction=0) / math.sqrt(curve.shape[1])
        (line,) = axes.plot(rounds, mean, linewidth=1.8)
        axes.fill_between(rounds, mean - band, mean + band, alpha=0.2, color=line.get_color(), linewidth=0)
        axes.annotate(
            name,
            (args.horizon, float(mean[-1])),
            (6, 0),
            textcoords="offset points",
            va="center",
            color=line.get_color(),
        )
    axes.set(xlabel="round", ylabel="cumulative regret", xlim=(0, args.horizon), ylim=(0, None))
    axes.set_title(f"Synthetic problem, d = {args.dim}, {args.num_problems} problems, mean and 95% band", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "regret.png"
    figure.savefig(file, dpi=150)
    plt.close(figure)
    return file


def main(argv: list[str] | None = None) -> None:
    args, console = parse(argv), Console()
    curves = play(args, console)
    show(curves, console)
    console.print(f"Plot: {draw(curves, args)}")


if __name__ == "__main__":
    main()
