"""Exploration in a recommender, on MovieLens: new users, and films that are new.

    SOFTUCB_DATA=... python scripts/recommend.py                    # ml-100k, under a minute
    SOFTUCB_DATA=... python scripts/recommend.py --data ml-1m       # under a minute, too
    SOFTUCB_DATA=... python scripts/recommend.py --scenario cold-items

New users: a two-tower model is trained on the ratings of one half of the users. The other half are new users, each with a
separate bandit over film features. In each round a user is shown one film out of several candidates; the reward is its
rating, completed by matrix factorisation, and arrives some rounds later. Every policy plays without and with a prior that is
fitted to the known users, and is tuned by the same number of simulations of known users. All meet the same candidates and
noise. "popularity" ranks films by their mean rating.

Cold items: one bandit serves all users, and the films released last have no ratings yet.

The results are a table, a plot, and a TensorBoard run per policy.
"""

import argparse
import os
import sys
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

sys.path.insert(0, str(Path(__file__).parent.parent))  # experiments/ is in the repository, not in the package

from experiments.recommender.cold_items import Sizes, cold_items, load_facts
from experiments.recommender.new_users import compare, new_users
from experiments.recommender.rows import Setting, play, prior_rows
from experiments.recommender.serve import serve
from experiments.recommender.show import draw, write_runs
from torch_softucb.problems import load_movielens
from torch_softucb.problems.movielens import film_ids

UNITS = {"share": (1.0, 0.0), "stars": (4.0, 1.0), "cents": (400.0, 100.0)}  # factor and offset of ratings in [0, 1]
Results = dict[str, tuple[Tensor, float | None]]  # regret (rounds, trajectories) of each policy, and its tuned number


def run_new_users(args: argparse.Namespace, folder: Path, console: Console) -> dict[str, Results]:
    """Compare all policies on new users."""
    unit, low = UNITS[args.unit]
    sizes = {"rounds": args.rounds, "candidates": args.candidates, "delay": args.delay, "epochs": args.epochs}
    raw = args.prior == "raw"
    scenario = new_users(load_movielens(folder), **sizes, seed=args.seed, unit=unit, low=low, raw_prior=raw)
    noise = scenario.setting.prior.noise_std / unit
    known, new = len(scenario.known), scenario.world.batch_shape[0]
    console.print(f"{known} known users, {new} new ones, {scenario.world.num_arms} films; noise of the prior {noise:.2f}")
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("Tuning on known users", total=9)
        results = compare(scenario, lambda name: progress.advance(task))
    if args.journal:
        decisions = serve(scenario, args.journal, rounds=min(args.rounds, 20))
        console.print(f"Served {decisions} decisions of 'auto, prior' through SoftUCBHead; log: {args.journal}")
    return {"new users": {name: (regret / unit, chosen) for name, (regret, chosen) in results.items()}}


def run_cold_items(args: argparse.Namespace, folder: Path, console: Console) -> dict[str, Results]:
    """Compare policies with a prior on films that have no ratings yet."""
    data, facts, panels = load_movielens(folder), load_facts(folder), {}
    for mixed in (False, True):
        cold = cold_items(data, facts, film_ids(folder), Sizes(mixed=mixed, trajectories=args.histories))
        setting = Setting(cold.world.dim, args.requests, cold.prior, cold.tuning, cold.tuning_prior, args.seed)
        name = "old and new films" if mixed else "new films only"
        panels[name] = {
            row: (play(policy, cold.world, args.requests, args.seed), chosen)
            for row, (policy, chosen) in prior_rows(setting).items()
        }
        console.print(f"{name}: {cold.world.num_arms} films, {cold.world.slots} candidates per request")
    return panels


def _interval(difference: Tensor) -> tuple[float, float, float]:  # (n,)
    mean, band = float(difference.mean()), 1.96 * float(difference.std()) / len(difference) ** 0.5
    return mean, mean - band, mean + band


def table(title: str, results: Results) -> Table:
    """Return the final regret of each policy, compared with greedy with or without the prior."""
    shown = Table("policy", title=title, caption="in brackets: standard error, and 95% interval of the paired difference")
    for column in ("regret", "tuned", "over greedy, 95%"):
        shown.add_column(column, justify="right")
    for name, (regret, chosen) in results.items():
        total = regret.double().sum(0)
        other = results["greedy, prior" if "prior" in name else "greedy"][0].double().sum(0)
        error, difference = float(total.std()) / len(total) ** 0.5, total - other
        number = "" if chosen is None else f"{chosen:.3g}"
        ratio, low, high = (float(1 + value / other.mean()) for value in _interval(difference))
        shown.add_row(name, f"{total.mean():.2f} ({error:.2f})", number, f"{ratio:.3f} ({low:.3f} to {high:.3f})")
    return shown


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", choices=("new-users", "cold-items"), default="new-users", help="default: new-users")
    parser.add_argument("--data", default="ml-100k", help="ml-100k, ml-1m or ml-latest-small in $SOFTUCB_DATA, or a path")
    parser.add_argument("--unit", choices=tuple(UNITS), default="share", help="unit of the rewards (default share: 0 to 1)")
    prior_help = "ratings of the known users that the prior is fitted to (default completed, as the worlds play)"
    parser.add_argument("--prior", choices=("completed", "raw"), default="completed", help=prior_help)
    parser.add_argument("--rounds", type=int, default=100, help="recommendations per user (default 100)")
    parser.add_argument("--candidates", type=int, default=50, help="films to choose from per recommendation (default 50)")
    parser.add_argument("--delay", type=int, default=2, help="rounds until a reward arrives (default 2)")
    parser.add_argument("--epochs", type=int, default=30, help="epochs of pretraining (default 30)")
    parser.add_argument("--requests", type=int, default=1500, help="cold items: requests per history (default 1500)")
    parser.add_argument("--histories", type=int, default=64, help="cold items: number of histories (default 64)")
    parser.add_argument("--seed", type=int, default=0, help="seed of candidates, noise and draws (default 0)")
    parser.add_argument("--journal", type=Path, help="also serve 'auto, prior' through a head, with a log in this folder")
    parser.add_argument("--log-dir", type=Path, default=Path("lightning_logs/recommend"), help="folder for TensorBoard runs")
    parser.add_argument("--out", type=Path, default=Path("results/demo"), help="folder for recommend.png")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> dict[str, Results]:
    """Run the comparison; return the results of each panel of the plot."""
    args, console = parse(argv), Console()
    path = Path(os.environ.get("SOFTUCB_DATA", ".")) / args.data
    folder = path if path.exists() else Path(args.data)
    torch.set_num_threads(2)
    if args.scenario == "new-users":
        panels, per = run_new_users(args, folder, console), f"user after {args.rounds} recommendations"
    else:
        panels, per = run_cold_items(args, folder, console), f"history of {args.requests} requests"
    runs = args.log_dir / f"version_{len([*args.log_dir.glob('version_*')])}"
    for name, results in panels.items():
        console.print(table(f"{name}: regret per {per}", results))
        write_runs(results, runs / name.replace(" ", "_"), SummaryWriter)
    args.out.mkdir(parents=True, exist_ok=True)
    draw({f"{args.data}, {name}": results for name, results in panels.items()}, args.out / "recommend.png")
    console.print(f"Plot: {args.out / 'recommend.png'}")
    console.print(f"Dashboard: .venv/bin/tensorboard --logdir {runs}", soft_wrap=True)
    return panels


if __name__ == "__main__":
    main()
