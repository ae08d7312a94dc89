"""Train the beta network shipped with the package on a family of problems, and write it as safetensors.

    python scripts/pretrain.py                  # about 15 minutes; this command made the file in the package
    python scripts/pretrain.py --steps 20       # a short trial

TensorBoard shows beta, regret, and the ratio of the regret on held-out problems to LinUCB's:
tensorboard --logdir lightning_logs
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.loggers import TensorBoardLogger

from torch_softucb.policies.beta.network import PRETRAINED, SituationBeta
from torch_softucb.training import Family, FamilyDataModule, SoftUCBMeta
from torch_softucb.training.trainer import quiet


def main(argv: list[str] | None = None) -> SituationBeta:
    """Train and save the network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--steps", type=int, default=500, help="training steps, each on one member of the family (default 500)"
    )
    parser.add_argument(
        "--trajectories", type=int, default=512, help="trajectories per step, eight per problem (default 512)"
    )
    parser.add_argument(
        "--horizon", type=int, nargs=2, default=(128, 4096), help="range of the horizon T (default 128 4096)"
    )
    parser.add_argument("--drifting", type=float, default=0.2, help="share of members whose rewards drift (default 0.2)")
    parser.add_argument("--lr", type=float, default=0.03, help="initial learning rate of Adam, annealed to 0 (default 0.03)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the problems and of the initial weights (default 0)")
    parser.add_argument("--out", type=Path, default=PRETRAINED, help="file to write (default: in the package)")
    args = parser.parse_args(argv)
    quiet()
    torch.manual_seed(args.seed)
    family = Family(horizon=tuple(args.horizon), drifting=args.drifting)
    data = FamilyDataModule(
        family=family, trajectories=args.trajectories, num_steps=args.steps, eval_members=8, seed=args.seed
    )
    beta = SituationBeta(horizon=1024, init=0.5)
    trainer = L.Trainer(
        max_epochs=1,
        log_every_n_steps=1,
        num_sanity_val_steps=0,
        val_check_interval=max(1, args.steps // 4),
        enable_model_summary=False,
        enable_checkpointing=False,
        gradient_clip_val=1.0,
        logger=TensorBoardLogger(save_dir=".", name="lightning_logs", default_hp_metric=False),
    )
    model = SoftUCBMeta(beta=beta, lr=args.lr, learn_delta=True, compile="native")
    trainer.fit(model, datamodule=data)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    command = (
        f"python scripts/pretrain.py --steps {args.steps} --trajectories {args.trajectories} --lr {args.lr} "
        f"--horizon {args.horizon[0]} {args.horizon[1]} --drifting {args.drifting} --seed {args.seed}"
    )
    delta = f"{float(torch.sigmoid(model.policy(1, 1).delta_logit.detach().double())):.7g}"
    beta.save(args.out, delta=delta, command=command, family=json.dumps(asdict(family)), torch=torch.__version__)
    print(f"Written: {args.out} ({args.out.stat().st_size} bytes), by {command}")
    return beta


if __name__ == "__main__":
    main()
