"""Small Lightning trainings that can stop and go on, with the values of their event files."""

import logging
import warnings
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.loggers import TensorBoardLogger

from torch_softucb import SituationBeta
from torch_softucb.training import (
    BanditDataModule,
    Family,
    FamilyDataModule,
    SoftUCBMeta,
    SoftUCBOffline,
    SoftUCBOnline,
    trainer_for,
)
from torch_softucb.training.trainer import quiet


def _model_and_data(name: str, steps: int) -> tuple[L.LightningModule, L.LightningDataModule]:
    data: dict[str, Any] = {"num_arms": 6, "dim": 3, "trajectories": 8, "num_steps": steps, "eval_trajectories": 8}
    if name == "family":
        sizes: dict[str, Any] = {"num_arms": (3, 6), "dim": (2, 4), "horizon": (10, 20)}
        members = FamilyDataModule(
            family=Family(**sizes), trajectories=8, num_steps=steps, eval_members=1, eval_trajectories=8
        )
        return SoftUCBMeta(beta=SituationBeta(horizon=12)), members
    if name.startswith("online"):
        eta: float | str = "auto" if name.endswith("auto") else 1.0
        model = SoftUCBOnline(num_trajectories=8, dim=3, horizon=3 * steps, rounds_per_step=3, coldness="lagged", eta=eta)
        return model, BanditDataModule(**data, one_episode=True)
    settings: dict[str, Any] = {"dim": 3, "horizon": 12}
    if name == "offline_auto":
        settings["eta"] = "auto"
    elif name == "trajectory":
        settings |= {"coldness": "smooth", "estimator": "trajectory", "learn_delta": True}
    else:
        settings["optimizer"] = lambda parameters: torch.optim.Adam(parameters, lr=0.05)
    return SoftUCBOffline(**settings), BanditDataModule(**data, fresh_problems=True)


class _SaveAt(L.Callback):
    """Save a checkpoint after some training steps."""

    def __init__(self, folder: Path, steps: set[int]) -> None:
        self.folder, self.steps = folder, steps

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step in self.steps:
            trainer.save_checkpoint(self.folder / f"{trainer.global_step}.ckpt")


def train(
    name: str, folder: Path, steps: int, resume: Path | None, stops: set[int]
) -> tuple[dict[str, list[tuple[int, float]]], dict[str, Any]]:
    """Train, from a checkpoint if there is one, and write the checkpoints of some steps as ``<step>.ckpt``.

    Returns:
        For each tag of the event files its steps and values, and the model's ``state_dict``.
    """
    quiet()
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(0 if resume is None else 1)
    model, data = _model_and_data(name, steps)
    logger = TensorBoardLogger(save_dir=str(folder), name="", version="events", default_hp_metric=False)
    quick: dict[str, Any] = {"enable_progress_bar": False, "enable_checkpointing": False, "limit_val_batches": 0}
    trainer = trainer_for(folder, logger=logger, callbacks=[_SaveAt(folder, stops)], **quick)
    trainer.fit(model, datamodule=data, ckpt_path=resume, weights_only=True)
    return _events(folder / "events"), dict(model.state_dict())


def _events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
