"""The command line: LightningCLI with the project's defaults, readable errors and a readable last line."""

import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback
from lightning.pytorch.loggers import TensorBoardLogger

from torch_softucb.checks import check_seed_kept
from torch_softucb.training.checkpoint import AtomicCheckpointIO
from torch_softucb.training.dashboard import Dashboard
from torch_softucb.training.data import BanditDataModule
from torch_softucb.training.module import SoftUCBModule
from torch_softucb.training.tags import RIVALS


class SoftUCBCLI(LightningCLI):
    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--resume", type=str | None, default=None, help="checkpoint to go on from, bit for bit")
        parser.link_arguments("data.dim", "model.init_args.dim")


def trainer_for(log_dir: str | Path = "lightning_logs", **kind: Any) -> L.Trainer:
    """A Lightning trainer with this project's logger, dashboard, checkpoints and progress bar; ``kind`` overrides."""
    return L.Trainer(**(_defaults(str(log_dir)) | kind))


def _defaults(log_dir: str) -> dict[str, Any]:
    return {
        "max_epochs": 1,
        "log_every_n_steps": 1,
        "num_sanity_val_steps": 0,
        "val_check_interval": 0.2,
        "enable_model_summary": False,
        "logger": TensorBoardLogger(save_dir=".", name=log_dir, default_hp_metric=False),
        "callbacks": [
            ModelCheckpoint(filename="last", every_n_train_steps=1, enable_version_counter=False),
            Dashboard(),
        ],
        "plugins": [AtomicCheckpointIO()],
    }


def _cli_defaults() -> dict[str, Any]:
    """The same, as jsonargparse wants what a config may override."""
    logger = {"save_dir": ".", "name": "lightning_logs", "default_hp_metric": False}
    return _defaults("lightning_logs") | {
        "logger": {"class_path": "lightning.pytorch.loggers.TensorBoardLogger", "init_args": logger},
        "plugins": [{"class_path": "torch_softucb.training.AtomicCheckpointIO"}],
    }


def run_folder(trainer: L.Trainer) -> str | None:
    """Where this run's events lie; asks no other process, unlike ``trainer.log_dir``."""
    return trainer.logger.log_dir if isinstance(trainer.logger, TensorBoardLogger) else None


def summary(model: SoftUCBModule, log_dir: str | None) -> str:
    """What was learned, against what, and where to look."""
    own = model.final_regret
    rounds = model.rounds_played
    regret = "not validated" if own is None else f"regret {own:.1f} over {rounds} rounds"
    lines = [f"beta {model.mean_beta:.3f} (Eq. 5's bound: {model.beta_bound:.2f}), {regret}."]
    for name, what in RIVALS.items():
        if own is not None and name in model.curves:
            rival = float(model.curves[name][rounds - 1].mean())
            times = f", {rival / own:.2f} times as much" if own > 0 else ""
            lines.append(f"  {what}: {rival:.1f}{times}")
    lines.append(f"Look: tensorboard --logdir {log_dir}" if log_dir else "No log was written.")
    return "\n".join(lines)


def check_run(model: SoftUCBModule, data: BanditDataModule, resume: str | None) -> None:
    """Find what cannot work before the run's folder is made."""
    model.check_data(data)
    if resume is not None:
        saved = AtomicCheckpointIO().load_checkpoint(resume)
        model.check_checkpoint(saved)
        for state in saved["loops"]["fit_loop"]["state_dict"].get("combined_loader", []):
            check_seed_kept("BanditDataModule", data.seed, state["seed"])


def quiet() -> None:
    """Leave out what Lightning says of products and of its own deprecations; its warnings and errors stay."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*isinstance\\(treespec, LeafSpec\\).*")
    warnings.filterwarnings("ignore", message=".*LightningCLI's args parameter.*")
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="lightning.pytorch.cli")
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*functional.all_gather is deprecated.*")


def main(argv: list[str] | None = None) -> SoftUCBModule:
    """Parse, train, say what came out. Bad input ends in one readable line and exit code 2."""
    quiet()
    try:
        cli = SoftUCBCLI(
            SoftUCBModule,
            BanditDataModule,
            subclass_mode_model=True,
            trainer_defaults=_cli_defaults(),
            save_config_callback=SaveConfigCallback,
            save_config_kwargs={"overwrite": True},
            seed_everything_default=False,
            auto_configure_optimizers=False,
            run=False,
            args=argv,
        )
        check_run(cli.model, cli.datamodule, cli.config["resume"])
        cli.trainer.fit(cli.model, datamodule=cli.datamodule, ckpt_path=cli.config["resume"], weights_only=True)
    except (ValueError, TypeError, ArithmeticError, OSError) as error:
        print(f"train: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    model = cli.model
    assert isinstance(model, SoftUCBModule)
    if cli.trainer.is_global_zero:
        print(summary(model, run_folder(cli.trainer)))
    return model
