"""SoftUCB as the exploration head of a two-tower recommender, on MovieLens.

    SOFTUCB_DATA=... python scripts/recommend.py                    # ml-100k, a minute
    SOFTUCB_DATA=... python scripts/recommend.py --data ml-1m

1. A two-tower model is trained on the ratings of one half of the users.
2. The other half are new users. The film tower is kept, and each user gets a separate bandit over film features. In each
   round each user is shown one film out of several candidates. The reward is its rating, completed by matrix
   factorisation, and arrives some rounds later.
3. Beta is learned by simulating the known users as if they were new. The simulations share all random numbers, so that
   regret is a function of beta alone. Another head learns beta while it serves (Eq. 15).
4. All heads meet the same new users, candidates and noise. The results are a table, a plot, and one TensorBoard run per
   head.
"""

import argparse
import math
import os
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.utils.tensorboard import SummaryWriter

from torch_softucb import BanditPolicy, EpsilonGreedy, LinTS, LinUCB, SoftUCBHead, SoftUCBPolicy
from torch_softucb.problems import fill_gaps, load_movielens
from torch_softucb.problems.movielens import Ratings
from torch_softucb.recommend import DecisionLog, OnlineBeta

FILMS, DIM, NOISE = 400, 12, 0.1
COLOURS = ["#111111", "#6b7785", "#a9a9a9", "#3b6fb6", "#2f8f6b", "#7d2e68", "#e39a3b", "#c8553d"]
SIMULATIONS = 14  # at most, to learn beta


class TwoTower(nn.Module):
    """Predict a rating as the film's mean plus the user's mean plus the dot product of their vectors."""

    def __init__(self, users: int, films: int) -> None:
        super().__init__()
        self.user, self.film = nn.Embedding(users, DIM), nn.Embedding(films, DIM)
        self.user_mean, self.film_mean = nn.Embedding(users, 1), nn.Embedding(films, 1)
        for table, scale in ((self.user, 0.1), (self.film, 0.1), (self.user_mean, 0.0), (self.film_mean, 0.0)):
            nn.init.normal_(table.weight, std=scale)

    def forward(self, user: Tensor, film: Tensor) -> Tensor:
        product = (self.user(user) * self.film(film)).sum(-1)
        return product + (self.user_mean(user) + self.film_mean(film)).squeeze(-1)


class FilmTower(nn.Module):
    """Features of a film for a new user: its vector and its mean."""

    def __init__(self, towers: TwoTower) -> None:
        super().__init__()
        self.vector, self.mean = towers.film, towers.film_mean

    def forward(self, film: Tensor) -> Tensor:  # (N, K) -> (N, K, DIM + 1)
        return torch.cat((self.vector(film), self.mean(film)), dim=-1)


def raw_ratings(data: Ratings, films: int) -> Tensor:  # (users, films) in [0, 1], NaN where there is none
    """Return the given ratings of the most-rated films, the same films that fill_gaps selects."""
    chosen = np.sort(np.argsort(-np.bincount(data.item, minlength=data.num_items), stable=True)[:films])
    table = torch.full((data.num_users, data.num_items), torch.nan)
    low, high = data.value.min(), data.value.max()
    table[data.user, data.item] = torch.from_numpy((data.value - low) / (high - low)).float()
    return table[:, chosen]


def pretrain(ratings: Tensor, epochs: int) -> TwoTower:  # (users, films), NaN where there is none
    """Fit the towers to the ratings of one half of the users."""
    torch.manual_seed(0)
    towers = TwoTower(*ratings.shape)
    user, film = (~ratings.isnan()).nonzero(as_tuple=True)
    value = ratings[user, film] - ratings[user, film].mean()
    optimizer = torch.optim.Adam(towers.parameters(), lr=0.02, weight_decay=1e-5)
    for _ in track(range(epochs), "Pretraining"):
        for rows in torch.randperm(len(user)).split(4096):
            optimizer.zero_grad()
            loss = (towers(user[rows], film[rows]) - value[rows]).square().mean()
            loss.backward()
            optimizer.step()
    return towers


def heads(dim: int, learned: float) -> dict[str, BanditPolicy]:
    """Return policies at common settings; none is tuned on the new users."""
    return {
        "auto": SoftUCBPolicy.auto(dim, pooled=True),
        "greedy": EpsilonGreedy(dim, epsilon=0.0),
        "epsilon-greedy 0.05": EpsilonGreedy(dim, epsilon=0.05),
        "LinUCB, beta 1": LinUCB(dim, beta=1.0),
        "LinTS, scale 0.3": LinTS(dim, scale=0.3),
        "SoftUCB, beta 1": SoftUCBPolicy(dim, beta_init=1.0),
        "SoftUCB, Eq. 15": SoftUCBPolicy(dim, beta_init=1.0),
        "SoftUCB, learned beta": SoftUCBPolicy(dim, beta_init=learned),
    }


def learn(towers: TwoTower, known: Tensor, args: argparse.Namespace) -> float:
    """Return the beta with the lowest regret on the known users, simulated as if they were new."""
    with Progress() as progress:
        task = progress.add_task("Learning beta", total=SIMULATIONS)

        def regret(log_beta: float) -> float:
            policy = SoftUCBPolicy(DIM + 2, beta_init=math.exp(log_beta))
            total = serve(policy, towers, known, args, range(args.rounds))[0].sum(0).mean()
            progress.advance(task)
            return float(total)

        optimum = minimize_scalar(
            regret, bounds=(math.log(0.01), math.log(3)), method="bounded", options={"maxiter": SIMULATIONS, "xatol": 0.02}
        )
        progress.update(task, completed=SIMULATIONS)
    return math.exp(optimum.x)


def serve(policy, towers, truth, args, rounds, *, online=False, writer=None, log=None):  # truth (users, films)
    """Recommend one film per user and round; return the regret (rounds, users) and the beta of each round."""
    users = torch.arange(len(truth))
    policy.reset(batch_shape=(len(truth),))
    head = SoftUCBHead(FilmTower(towers), policy, intercept=True, normalise=True, seed=args.seed)
    head.calibrate([(torch.arange(truth.shape[1]),)])
    learner = OnlineBeta(policy, horizon=args.rounds) if online else None
    draws = torch.Generator().manual_seed(args.seed)
    regrets, betas, pending = [], [], []
    for t in rounds:
        films = torch.rand(truth.shape, generator=draws).topk(args.candidates, dim=-1).indices  # (users, candidates)
        noise = NOISE * torch.randn(len(truth), generator=draws)
        with torch.no_grad():
            decision = head(films, bandit=users)
        served = head.serve(decision)
        if log is not None:
            log.decisions(served, version=1, context=users, candidates=films)
            log.commit()
        if learner is not None:
            learner.step(decision)
        shown = films.gather(1, served.arm.unsqueeze(-1))
        mean = truth.gather(1, shown).squeeze(-1)
        pending.append((served.id, mean + noise))
        if len(pending) > args.delay:
            ids, reward = pending.pop(0)
            head.feedback(ids, reward)
            if log is not None:
                log.rewards(ids, reward)
        regrets.append(truth.gather(1, films).amax(-1) - mean)
        betas.append(math.nan if decision.beta is None else float(decision.beta.mean()))
        if writer is not None:
            log_scalars(writer, t, decision, float(torch.stack(regrets).sum(0).mean()), float(mean.mean()))
    return torch.stack(regrets), betas


def log_scalars(writer, t, decision, regret, reward):
    """Write TensorBoard scalars. Each head is a separate run with the same tags, so that TensorBoard overlays the curves."""
    writer.add_scalar("recommend/regret", regret, t)
    writer.add_scalar("recommend/reward", reward, t)
    if decision.beta is not None:
        writer.add_scalar("policy/beta", float(decision.beta.mean()), t)
    if decision.probs is not None:
        writer.add_scalar("policy/entropy", float(decision.entropy().mean()), t)


def draw(results: dict[str, tuple[Tensor, list[float]]], title: str, out: Path) -> None:
    """Draw regret and beta of each head."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    for (name, (regret, beta)), colour in zip(results.items(), COLOURS, strict=True):
        total = regret.cumsum(0)
        mean, half = total.mean(1), 1.96 * total.std(1) / math.sqrt(total.shape[1])
        rounds = range(1, len(mean) + 1)
        left.plot(rounds, mean, color=colour, label=f"{name}  {mean[-1]:.2f}", linewidth=2.2 if "SoftUCB" in name else 1.4)
        left.fill_between(rounds, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
        if "SoftUCB" in name:
            right.plot(rounds, beta, color=colour, label=f"{name}  {beta[-1]:.2f}", linewidth=2.2)
    left.set(xlabel="recommendations per user", ylabel="cumulative regret per user", title=title)
    right.set(xlabel="recommendations per user", ylabel="beta", title="confidence width", yscale="log")
    left.legend(frameon=False, fontsize=9)
    right.legend(frameon=False, fontsize=9)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=130)


def table(results: dict[str, tuple[Tensor, list[float]]]) -> Table:
    """Return the final regret of each head."""
    shown = Table("head", title="Regret per user after all recommendations (lower is better)")
    for column in ("regret", "standard error", "last beta", "vs. greedy"):
        shown.add_column(column, justify="right")
    greedy = results["greedy"][0].sum(0).mean()
    for name, (regret, beta) in results.items():
        total = regret.sum(0)
        error = float(total.std()) / math.sqrt(len(total))
        last = "" if math.isnan(beta[-1]) else f"{beta[-1]:.2f}"
        shown.add_row(name, f"{total.mean():.2f}", f"{error:.2f}", last, f"{total.mean() / greedy:.2f}")
    return shown


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ml-100k", help="ml-100k, ml-1m or ml-latest-small in $SOFTUCB_DATA, or a path")
    parser.add_argument("--rounds", type=int, default=100, help="recommendations per user (default 100)")
    parser.add_argument("--candidates", type=int, default=50, help="films to choose from per recommendation (default 50)")
    parser.add_argument("--delay", type=int, default=2, help="rounds until a reward arrives (default 2)")
    parser.add_argument("--epochs", type=int, default=30, help="epochs of pretraining (default 30)")
    parser.add_argument("--seed", type=int, default=0, help="seed of candidates, noise and draws (default 0)")
    parser.add_argument(
        "--journal", type=Path, help="folder for a decision log of the head with the learned beta (default: none)"
    )
    parser.add_argument("--log-dir", type=Path, default=Path("lightning_logs/recommend"), help="folder for TensorBoard runs")
    parser.add_argument("--out", type=Path, default=Path("results/demo"), help="folder for recommend.png")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> dict[str, tuple[Tensor, list[float]]]:
    """Run the comparison; return regret and beta of each head."""
    args, console = parse(argv), Console()
    path = Path(os.environ.get("SOFTUCB_DATA", ".")) / args.data
    data = load_movielens(path if path.exists() else args.data)
    films = min(FILMS, data.num_items)
    truth = torch.from_numpy(fill_gaps(data, num_items=films)).float()  # (users, films) in [0, 1]
    half = len(truth) // 2
    console.print(f"{len(truth)} users, {films} films; {half} known users, {len(truth) - half} new ones.")
    towers = pretrain(raw_ratings(data, films)[:half], args.epochs)
    folder = args.log_dir / f"version_{len([*args.log_dir.glob('version_*')])}"
    beta = learn(towers, truth[:half], args)
    results = {}
    for name, policy in heads(DIM + 2, beta).items():
        rounds = track(range(args.rounds), f"{name:22s}")
        log = DecisionLog(args.journal) if args.journal and "learned" in name else nullcontext()
        with SummaryWriter(str(folder / name.replace(", ", "_").replace(" ", "_"))) as writer, log as journal:
            results[name] = serve(
                policy, towers, truth[half:], args, rounds, online="Eq." in name, writer=writer, log=journal
            )
    console.print(table(results))
    args.out.mkdir(parents=True, exist_ok=True)
    draw(results, f"{args.data}: {len(truth) - half} new users, mean and 95% band", args.out / "recommend.png")
    console.print(f"Plot: {args.out / 'recommend.png'}")
    console.print(f"Dashboard: .venv/bin/tensorboard --logdir {folder}", soft_wrap=True)
    return results


if __name__ == "__main__":
    main()
