"""Train the beta networks on families of problems, and write them as safetensors.

    python scripts/pretrain.py                  # about 15 minutes: the network of SoftUCBPolicy.pretrained
    python scripts/pretrain.py --auto           # about 15 minutes: a network for SoftUCBPolicy.auto
    python scripts/pretrain.py --steps 20       # a short trial

With --auto, the network is then compared with single numbers on members of the family that training never drew, and is
written only if it is better than the best of them: a number is simpler. TensorBoard shows beta, regret, and the ratio of the
regret on held-out problems to LinUCB's: tensorboard --logdir lightning_logs
"""

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.loggers import TensorBoardLogger

from torch_softucb import AutoSoftUCB, SoftUCBPolicy
from torch_softucb.learning.episode import Episode
from torch_softucb.policies.auto import DELTA
from torch_softucb.policies.beta.network import PRETRAINED, SituationBeta
from torch_softucb.policies.beta.summary import PRETRAINED_AUTO, SummaryBeta
from torch_softucb.training import Family, FamilyDataModule, SoftUCBMeta
from torch_softucb.training.trainer import quiet

NUMBERS = (1.0, 1.4, 2.0, 2.8)  # betas in units of the noise that the network is compared with
AUTO_FAMILY = Family(
    num_arms=(2, 200),
    dim=(2, 64),
    horizon=(50, 5000),
    noise_std=(0.02, 5.0),
    noise_band=1.5,
    drifting=0.15,
    features=("sphere", "sphere", "correlated", "one_hot"),
    misfit=(0.1, 2.0),
    offset=1.0,
)


def compare(beta: SummaryBeta, data: FamilyDataModule, *, members: int, trajectories: int) -> dict[str, float]:
    """Return the geometric mean over held-out members of the regret over that of the first of ``NUMBERS``."""

    def regret(build: Callable[[int, int], SoftUCBPolicy], episode: Episode) -> float:
        assert episode.horizon is not None
        policy = build(episode.problem.dim, episode.horizon)
        return float(episode.play(policy, horizon=episode.horizon, compile="native").regret.sum(0).mean())

    makers: dict[str, Callable[[int, int], SoftUCBPolicy]] = {
        "network": lambda dim, horizon: AutoSoftUCB(dim, beta_init=beta.for_horizon(horizon)),
        "network, horizon not given": lambda dim, horizon: AutoSoftUCB(dim, beta_init=beta.for_horizon(None)),
    }
    for number in NUMBERS:
        makers[f"beta {number:g}"] = lambda dim, horizon, number=number: AutoSoftUCB(dim, beta_init=number)  # type: ignore[misc]
    logs: dict[str, list[float]] = {name: [] for name in makers}
    for number in range(members):
        episode = data.episode("test", number, trajectories)
        found = {name: max(regret(build, episode), 1e-9) for name, build in makers.items()}
        for name, value in found.items():
            logs[name].append(math.log(value / found[f"beta {NUMBERS[0]:g}"]))
    return {name: math.exp(sum(values) / len(values)) for name, values in logs.items()}


def main(argv: list[str] | None = None) -> SituationBeta | SummaryBeta:
    """Train and save a network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--auto", action="store_true", help="train the network of SoftUCBPolicy.auto")
    parser.add_argument("--steps", type=int, help="training steps, each on one member of the family (default 500; auto 800)")
    parser.add_argument("--trajectories", type=int, help="trajectories per step (default 512, eight per problem; auto 2048)")
    parser.add_argument("--horizon", type=int, nargs=2, help="range of the horizon T (default 128 4096; auto 50 5000)")
    parser.add_argument("--drifting", type=float, help="share of members whose rewards drift (default 0.2; auto 0.15)")
    parser.add_argument("--lr", type=float, default=0.03, help="initial learning rate of Adam, annealed to 0 (default 0.03)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the problems and of the initial weights (default 0)")
    parser.add_argument("--members", type=int, default=64, help="held-out members of the comparison (default 64)")
    parser.add_argument("--out", type=Path, help="file to write (default: in the package)")
    args = parser.parse_args(argv)
    quiet()
    torch.manual_seed(args.seed)
    first = AUTO_FAMILY if args.auto else Family(horizon=(128, 4096), drifting=0.2)
    horizon = first.horizon if args.horizon is None else tuple(args.horizon)
    drifting = first.drifting if args.drifting is None else args.drifting
    family = Family(**asdict(first) | {"horizon": horizon, "drifting": drifting})
    steps = args.steps or (800 if args.auto else 500)
    trajectories = args.trajectories or (2048 if args.auto else 512)
    data = FamilyDataModule(family=family, trajectories=trajectories, num_steps=steps, eval_members=8, seed=args.seed)
    trainer = L.Trainer(
        max_epochs=1,
        log_every_n_steps=1,
        num_sanity_val_steps=0,
        val_check_interval=max(1, steps // 4),
        enable_model_summary=False,
        enable_checkpointing=False,
        gradient_clip_val=None if args.auto else 1.0,  # clipping would hide the rare, large costs of too little exploration
        logger=TensorBoardLogger(save_dir=".", name="lightning_logs", default_hp_metric=False),
    )
    beta: SituationBeta | SummaryBeta
    if args.auto:
        beta = SummaryBeta(horizon=1024, init=2.2)
        model = SoftUCBMeta(
            beta=beta,
            lr=args.lr,
            delta=DELTA,
            estimate_scales=True,
            estimator="evolution",
            hide_horizon=0.33,
            compile="native",
        )
    else:
        beta = SituationBeta(horizon=1024, init=0.5)
        model = SoftUCBMeta(beta=beta, lr=args.lr, learn_delta=True, compile="native")
    trainer.fit(model, datamodule=data)
    command = (
        f"python scripts/pretrain.py{' --auto' if args.auto else ''} --steps {steps} --trajectories {trajectories} "
        f"--lr {args.lr} --horizon {horizon[0]} {horizon[1]} --drifting {drifting} --seed {args.seed}"
    )
    delta = DELTA
    if isinstance(beta, SummaryBeta):
        found = compare(beta, data, members=args.members, trajectories=256)
        print("Regret on held-out members, geometric mean, over that of the first number:")
        for name, value in found.items():
            print(f"  {name:28s} {value:.3f}")
        if found["network"] >= min(found[f"beta {number:g}"] for number in NUMBERS):
            print("A number is as good: nothing was written.")
            return beta
    else:
        delta = float(torch.sigmoid(model.policy(1, 1).delta_logit.detach().double()))
    out = args.out or (PRETRAINED_AUTO if args.auto else PRETRAINED)
    out.parent.mkdir(parents=True, exist_ok=True)
    text = f"{delta:.12g}" if args.auto else f"{delta:.7g}"
    beta.save(out, delta=text, command=command, family=json.dumps(asdict(family)), torch=torch.__version__)
    print(f"Written: {out} ({out.stat().st_size} bytes), by {command}")
    return beta


if __name__ == "__main__":
    main()
