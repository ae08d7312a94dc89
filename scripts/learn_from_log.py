"""Learn a SoftUCB policy from a decision log, and estimate its gain.

    python scripts/learn_from_log.py decisions/ --horizon 1024               # the folder of a DecisionLog
    python scripts/learn_from_log.py log.parquet --horizon 1024 --out learned
    python scripts/learn_from_log.py big_log/ --stream                       # a folder of Parquet files larger than memory
    python scripts/learn_from_log.py --demo                                  # writes a log first; about a minute

A Parquet file has one row per decision and the columns x (list of d numbers), arm, propensity and reward (null if it has not
arrived). Optional columns are candidates (list of K item ids) or features (K lists of d numbers); without either, the policy
can be simulated but not evaluated. Without propensity, evaluation rests on a model of the choices and is marked as such. Any
policy may have made the decisions.

1. Fit the posterior of theta and of the noise to the rewards.
2. Learn beta on problems drawn from that posterior, each started from scratch and played for HORIZON rounds.
3. Estimate the gain, by simulation and by off-policy evaluation on decisions that it did not learn from.

Writes policy.safetensors (the learned SoftUCB), recommended.safetensors (what the report recommends to deploy: greedy, tuned
LinUCB or the same SoftUCB; no file if it recommends to keep the logging policy), report.md and regret.png. load_policy reads
both, with the statistics of the whole log.
"""

import argparse
import sys
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress, TaskID

from torch_softucb import NumericalError, synthetic_problem
from torch_softucb.from_logs import LearnedFromLog, learn_from_log, logged_delays
from torch_softucb.from_logs.evaluate import mean_interval
from torch_softucb.from_logs.learn import LEARNS
from torch_softucb.from_logs.report import log_report, recommendation, recommended, regret_by_beta
from torch_softucb.from_logs.stream import ENGINES
from torch_softucb.from_logs.synthetic_log import epsilon_greedy_log
from torch_softucb.from_logs.worlds import NOISES
from torch_softucb.policies.serialization import save_policy
from torch_softucb.recommend import JournalError, read_decisions

DELAY_HELP = (
    "rounds by which rewards are late in simulated worlds, or the probabilities of 0, 1, ... rounds: 0.5,0.3; or logged: as "
    "the records of a DecisionLog say (default 0)"
)


def _delay(text: str) -> int | torch.Tensor | str:
    if text == "logged":
        return text
    return torch.tensor([float(part) for part in text.split(",")], dtype=torch.float64) if "," in text else int(text)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="?", type=Path, help="folder of a DecisionLog, or a Parquet file")
    parser.add_argument("--demo", action="store_true", help="write a log of an epsilon-greedy policy first, and use it")
    parser.add_argument("--decisions", type=int, default=20_000, help="number of decisions of --demo (default 20000)")
    parser.add_argument("--horizon", type=int, default=1024, help="number of rounds T to optimise for (default 1024)")
    parser.add_argument("--out", type=Path, default=Path("results/from_log"), help="output folder (default %(default)s)")
    parser.add_argument("--share", type=float, default=0.5, help="share of earlier decisions in evaluation (default 0.5)")
    parser.add_argument("--steps", type=int, default=50, help="optimiser steps of learning beta (default 50)")
    parser.add_argument("--trajectories", type=int, default=512, help="trajectories per step (default 512)")
    parser.add_argument("--problems", type=int, default=1024, help="problems to measure regret on (default 1024)")
    parser.add_argument("--num-arms", type=int, default=50, help="candidates per problem if none are logged (default 50)")
    parser.add_argument("--delta", type=float, default=0.99, help="delta of Eq. 9 (default 0.99)")
    parser.add_argument("--ridge-alpha", type=float, default=1.0, help="ridge weight (default 1)")
    parser.add_argument("--estimator", choices=LEARNS, default=LEARNS[0], help="gradient estimator (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of problems, noise and action draws (default 0)")
    parser.add_argument("--shared", action="store_true", help="one model for all bandits of the log, not one each")
    parser.add_argument("--fit-prior", action="store_true", help="start new users at a prior that is fitted to the others")
    parser.add_argument(
        "--noise", choices=NOISES, default="gaussian", help="noise of simulated worlds (default %(default)s)"
    )
    parser.add_argument("--delay", type=_delay, default=0, help=DELAY_HELP)
    parser.add_argument("--stream", action="store_true", help="read Parquet files in batches; for logs larger than memory")
    parser.add_argument("--engine", choices=ENGINES, default="local", help="how --stream reads files (default local)")
    parser.add_argument("--eager", action="store_true", help="do not use the C++ kernel")
    args = parser.parse_args(argv)
    if args.demo == (args.log is not None):
        parser.error("give either a log or --demo")
    return args


def learn(args: argparse.Namespace) -> LearnedFromLog:
    log = args.log if args.stream else read_decisions(args.log)
    tasks: dict[str, TaskID] = {}
    with Progress() as bar:

        def progress(stage: str, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.advance(tasks[stage])

        return learn_from_log(
            log,
            horizon=args.horizon,
            share=args.share,
            steps=args.steps,
            trajectories=args.trajectories,
            problems=args.problems,
            num_arms=args.num_arms,
            delta=args.delta,
            ridge_alpha=args.ridge_alpha,
            estimator=args.estimator,
            seed=args.seed,
            compile=False if args.eager else "native",
            per_user=not args.shared,
            prior="fit" if args.fit_prior else None,
            noise=args.noise,
            delay=logged_delays(args.log, per_user=not args.shared) if args.delay == "logged" else args.delay,
            engine=args.engine,
            progress=progress,
        )


def summary(result: LearnedFromLog) -> str:
    lines = [f"Learned beta: {result.betas[-1]:.3g} (Eq. 5: {result.radius:.3g})"]
    for name, regret in result.regret.items():
        mean = mean_interval(regret)
        lines.append(f"Regret over {result.horizon} rounds, {name}: {mean.value:.4g} ({mean.low:.4g} to {mean.high:.4g})")
    if result.value is None:
        missing = "propensities" if result.posterior.offered.known else "candidates with features"
        lines.append(f"Off-policy evaluation: not possible, the log has no {missing}")
    else:
        gain = result.value.gain
        note = "" if result.value.estimated is None else "; propensities estimated, not logged"
        interval = f"({gain.low:+.3g} to {gain.high:+.3g})"
        lines.append(f"Reward over what was logged, off-policy: {gain.value:+.3g} {interval}{note}")
    return "\n".join([*lines, recommendation(result)])


def main(argv: list[str] | None = None) -> LearnedFromLog:
    args, console = parse(argv), Console()
    try:
        if args.demo:
            problem = synthetic_problem(num_problems=1, generator=torch.Generator().manual_seed(args.seed))[0]
            folder = args.out / "log"
            if folder.exists():
                raise ValueError(f"--demo: {folder} is there already; remove it, or pass it as the log")
            epsilon_greedy_log(folder, problem, decisions=args.decisions, seed=args.seed)
            args.log = folder / "00000001.decisions.parquet"
            console.print(f"Log: {args.log}, of an epsilon-greedy policy on a random problem", soft_wrap=True)
        result = learn(args)
        args.out.mkdir(parents=True, exist_ok=True)
        notes = {"horizon": result.horizon, "log": args.log.name}
        save_policy(args.out / "policy.safetensors", result.policy, notes=notes)
        deploy = recommended(result)
        if deploy is None:  # a file of an earlier run would be mistaken for this one's
            (args.out / "recommended.safetensors").unlink(missing_ok=True)
        else:
            save_policy(args.out / "recommended.safetensors", deploy, notes=notes)
        regret_by_beta(result).savefig(args.out / "regret.png", dpi=120)
        (args.out / "report.md").write_text(log_report(result, source=f"`{args.log.name}`"))
    except (ValueError, TypeError, OSError, OverflowError, ImportError, NumericalError, JournalError) as error:
        print(f"learn_from_log: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    console.print(summary(result), highlight=False)
    recommends = () if deploy is None else ("recommended.safetensors",)
    for name in ("policy.safetensors", *recommends, "report.md", "regret.png"):
        console.print(f"Written: {args.out / name}", soft_wrap=True)
    return result


if __name__ == "__main__":
    main()
