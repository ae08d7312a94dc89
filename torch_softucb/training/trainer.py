"""A Lightning trainer with the logger, checkpoints and dashboard of this project."""

import logging
import warnings
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger

from torch_softucb.training.checkpoint import AtomicCheckpointIO
from torch_softucb.training.dashboard import Dashboard
from torch_softucb.training.module import SoftUCBModule
from torch_softucb.training.tags import BASELINES


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


def run_folder(trainer: L.Trainer) -> str | None:
    """Where this run's events lie; asks no other process, unlike ``trainer.log_dir``."""
    return trainer.logger.log_dir if isinstance(trainer.logger, TensorBoardLogger) else None


def summary(model: SoftUCBModule, log_dir: str | None) -> str:
    """What was learned, against what, and where to look."""
    own = model.final_regret
    rounds = model.rounds_played
    regret = "not validated" if own is None else f"regret {own:.1f} over {rounds} rounds"
    lines = [f"beta {model.mean_beta:.3f} (Eq. 5's bound: {model.beta_bound:.2f}), {regret}."]
    for name, what in BASELINES.items():
        if own is not None and name in model.curves:
            baseline = float(model.curves[name][rounds - 1].mean())
            times = f", {baseline / own:.2f} times as much" if own > 0 else ""
            lines.append(f"  {what}: {baseline:.1f}{times}")
    lines.append(f"Look: tensorboard --logdir {log_dir}" if log_dir else "No log was written.")
    return "\n".join(lines)


def quiet() -> None:
    """Leave out what Lightning says of products and of its own deprecations; its warnings and errors stay."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*isinstance\\(treespec, LeafSpec\\).*")
    warnings.filterwarnings("ignore", message=".*LightningCLI's args parameter.*")
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="lightning.pytorch.cli")
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*functional.all_gather is deprecated.*")
