"""Learn how much to explore, then compare with the baselines: all of SoftUCB in about a minute.

    python scripts/demo.py
    python scripts/demo.py --steps 5 --trajectories 32 --horizon 128 --log-dir /tmp/demo

1. SoftUCB offline learns the confidence width beta on random problems (Sec. 5).
2. Simulate on 512 held-out problems: SoftUCB at the learned beta, SoftUCB online, which learns a separate beta per
   trajectory while it plays, and the paper's baselines. All of them meet the same noise.
3. Print a table, draw a plot and write a TensorBoard run.
"""

import argparse
import math
from pathlib import Path

from rich.console import Console
from rich.table import Table

from torch_softucb.training import BanditDataModule, Dashboard, SoftUCBOffline, SoftUCBOnline, trainer_for
from torch_softucb.training.figures import NAMES, regret_figure
from torch_softucb.training.trainer import quiet, run_folder


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30, help="offline training steps (default 30)")
    parser.add_argument("--trajectories", type=int, default=256, help="trajectories per training step (default 256)")
    parser.add_argument("--problems", type=int, default=512, help="held-out problems (default 512)")
    parser.add_argument("--horizon", type=int, default=1024, help="number of rounds T (default 1024)")
    parser.add_argument("--dim", type=int, default=10, help="number of features d (default 10)")
    parser.add_argument(
        "--eta", type=float, default=0.002, help="weight of the constraint that raises beta, offline (default 0.002)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of problems, noise and draws (default 0)")
    parser.add_argument(
        "--log-dir", type=Path, default=Path("lightning_logs"), help="folder for TensorBoard runs (default lightning_logs)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("results/demo"), help="folder for regret.png (default results/demo)"
    )
    return parser.parse_args(argv)


def learn_offline(args: argparse.Namespace) -> tuple[SoftUCBOffline, str | None]:
    """Train by Algorithm 2; return the module and the folder of its run."""
    model = SoftUCBOffline(dim=args.dim, horizon=args.horizon, eta=args.eta, lr=4.0)
    data = BanditDataModule(
        dim=args.dim,
        trajectories=args.trajectories,
        num_steps=args.steps,
        fresh_problems=True,
        eval_trajectories=args.problems,
        seed=args.seed,
    )
    trainer = trainer_for(args.log_dir)
    trainer.fit(model, datamodule=data)
    return model, run_folder(trainer)


def learn_online(args: argparse.Namespace) -> SoftUCBOnline:
    """Train by Algorithm 3 on the validation problems of the offline run, which offline training has not met."""
    steps = max(1, args.horizon // 32)
    rounds = math.ceil(args.horizon / steps)
    model = SoftUCBOnline(num_trajectories=args.problems, dim=args.dim, horizon=args.horizon, rounds_per_step=rounds)
    data = HeldOut(
        dim=args.dim,
        trajectories=args.problems,
        num_steps=steps,
        fresh_problems=True,
        one_episode=True,
        seed=args.seed,
    )
    trainer = trainer_for(args.log_dir, callbacks=[Dashboard()], limit_val_batches=0, enable_checkpointing=False)
    trainer.fit(model, datamodule=data)
    return model


class HeldOut(BanditDataModule):
    """Problems and noise that another run with the same seed validates on."""

    def episode(self, stage, number, count):
        self.one_episode = False
        try:
            return super().episode("validate", 0, count)
        finally:
            self.one_episode = True


def table(offline: SoftUCBOffline, online: SoftUCBOnline) -> Table:
    """Return final regrets, relative to SoftUCB at the learned beta."""
    shown = Table("policy", title="Cumulative regret, mean over problems (lower is better)")
    for column in ("regret", "standard error", "vs. SoftUCB"):
        shown.add_column(column, justify="right")
    last = {name: curve[-1] for name, curve in offline.curves.items()}
    order = {"soft_ucb": last.pop("soft_ucb"), "soft_ucb_online": online.regret, **last}
    for name, regret in order.items():
        title = f"SoftUCB, learned beta {offline.mean_beta:.2f}" if name == "soft_ucb" else NAMES[name]
        error = float(regret.std()) / math.sqrt(len(regret)) if len(regret) > 1 else math.nan
        shown.add_row(title, f"{regret.mean():.1f}", f"{error:.1f}", f"{regret.mean() / order['soft_ucb'].mean():.1f}x")
    return shown


def main(argv: list[str] | None = None) -> None:
    """Run the demo."""
    args, console = parse(argv), Console()
    quiet()
    console.print("Learning beta offline ...")
    offline, folder = learn_offline(args)
    console.print("Learning beta online ...")
    online = learn_online(args)
    console.print(table(offline, online))
    console.print(f"Learned beta {offline.mean_beta:.3f}; its theoretical bound (Eq. 5) is {offline.beta_bound:.2f}.")
    args.out.mkdir(parents=True, exist_ok=True)
    curves = {"soft_ucb": offline.curves["soft_ucb"], "soft_ucb_online": online.curve, **offline.curves}
    regret_figure(curves, f"d = {args.dim}, {args.problems} problems, mean and 95% band").savefig(
        args.out / "regret.png", dpi=150
    )
    console.print(f"Plot: {args.out / 'regret.png'}")
    console.print(f"Dashboard: .venv/bin/tensorboard --logdir {Path(folder or args.log_dir).parent}", soft_wrap=True)


if __name__ == "__main__":
    main()
