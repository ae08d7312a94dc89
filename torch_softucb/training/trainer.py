"""A Lightning trainer with the logger, checkpoints and dashboard of this project."""

import logging
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from torch.utils.data import DataLoader, IterableDataset

from torch_softucb.checks import check_integer
from torch_softucb.learning.episode import Episode
from torch_softucb.problems.base import BanditProblem
from torch_softucb.training.batches import as_episode
from torch_softucb.training.checkpoint import AtomicCheckpointIO
from torch_softucb.training.dashboard import Dashboard
from torch_softucb.training.module import SoftUCBModule
from torch_softucb.training.problem_data import ProblemDataModule
from torch_softucb.training.runs import Run, RunGuard
from torch_softucb.training.tags import BASELINES

_VALIDATE = 0.2  # share of the batches of an epoch after which the policy is validated
_MOST = 1024  # batches of an iterator that are kept
_CALLS = "use trainer.fit(module, problem), or trainer.fit(module, [problem, ...]) with one batch of problems per step"


def trainer_for(
    log_dir: str | Path = "lightning_logs", *, run: Run | None = None, checkpoint_every: int = 1, **trainer_kwargs: Any
) -> L.Trainer:
    """Build a Lightning trainer with this project's logger, dashboard, checkpoints and progress bar.

    Its ``fit`` also takes a :class:`~torch_softucb.BanditProblem`, which :class:`ProblemDataModule` then serves, or a list
    or an iterator of batches of problems, one per step. Of an iterator it takes the first ``max_steps`` batches.

    Args:
        log_dir: folder of the TensorBoard runs.
        run: run of :func:`last_run` to continue in its folder; pass ``ckpt_path=run.checkpoint`` to ``fit``.
        checkpoint_every: training steps between two checkpoints.
        **trainer_kwargs: arguments of :class:`lightning.Trainer` that replace the defaults.
    """
    return _Trainer(**(trainer_defaults(str(log_dir), run=run, checkpoint_every=checkpoint_every) | trainer_kwargs))


class _Trainer(L.Trainer):
    """A trainer that also takes problems where Lightning takes loaders."""

    def fit(self, model: L.LightningModule, train_dataloaders: Any = None, *args: Any, **kwargs: Any) -> None:
        """Train on a data module, a loader, a problem or a list of problems; the other arguments are Lightning's."""
        data = served(train_dataloaders, most=self.max_steps)
        endless = isinstance(data, DataLoader) and isinstance(data.dataset, IterableDataset)
        if endless and self.val_check_interval == _VALIDATE:
            self.val_check_interval = 1.0  # a share of the batches needs their number
        super().fit(model, data, *args, **kwargs)


def served(data: Any, *, most: int | None = -1) -> Any:
    """Return problems as something that Lightning can load; loaders and data modules are returned as they are.

    Args:
        data: first argument of ``Trainer.fit`` after the module.
        most: number of batches that are taken of an iterator; -1 takes all.

    Raises:
        TypeError: if Lightning could not load it either.
        ValueError: if there are no batches, or an iterator has too many to be kept.

    Example:
        >>> from torch_softucb import synthetic_problem
        >>> type(served(synthetic_problem(num_problems=4))).__name__
        'ProblemDataModule'
        >>> len(served([synthetic_problem(num_problems=4)] * 3))
        3
    """
    where = "Trainer.fit"
    if isinstance(data, BanditProblem):
        return ProblemDataModule(problem=data)
    problems = isinstance(data, dict) and any(isinstance(each, BanditProblem) for each in data.values())
    if problems or (data is not None and not isinstance(data, Iterable | L.LightningDataModule)):
        raise TypeError(f"{where}: expected problems, got {type(data).__name__}; {_CALLS}")
    if not isinstance(data, Iterator | list | tuple):
        return data
    limit = _MOST if most is None or most < 1 else most
    batches = list(islice(data, limit)) if isinstance(data, Iterator) else list(data)
    if not batches:
        raise ValueError(f"{where}: expected at least one batch of problems, got none; {_CALLS}")
    if isinstance(data, Iterator) and limit == _MOST and next(data, None) is not None:
        raise ValueError(
            f"{where}: expected at most {_MOST} batches of an iterator without max_steps, got more; use "
            "trainer_for(max_steps=...), or a list"
        )
    if any(isinstance(batch, BanditProblem | Episode) for batch in batches):
        for number, batch in enumerate(batches):
            as_episode(where, batch, "train", number=number)
        return DataLoader(batches, batch_size=None)  # type: ignore[arg-type]  # a list is a dataset
    return batches


def trainer_defaults(log_dir: str, *, run: Run | None = None, checkpoint_every: int = 1) -> dict[str, Any]:
    """Return the trainer arguments that :func:`trainer_for` starts from."""
    every = check_integer("trainer_for", "checkpoint_every", checkpoint_every, low=1)
    options = {} if run is None else run.logger_options
    return {
        "max_epochs": 1,
        "log_every_n_steps": 1,
        "num_sanity_val_steps": 0,
        "val_check_interval": _VALIDATE,
        "enable_model_summary": False,
        "logger": TensorBoardLogger(save_dir=".", name=log_dir, default_hp_metric=False, **options),
        "callbacks": [
            ModelCheckpoint(filename="last", every_n_train_steps=every, enable_version_counter=False),
            Dashboard(),
            RunGuard(),
        ],
        "plugins": [AtomicCheckpointIO()],
    }


def run_folder(trainer: L.Trainer) -> str | None:
    """Return the folder of this run's events, without communicating with other processes as ``trainer.log_dir`` does."""
    return trainer.logger.log_dir if isinstance(trainer.logger, TensorBoardLogger) else None


def summary(model: SoftUCBModule, log_dir: str | None) -> str:
    """Describe the learned beta, its regret next to the baselines', and where the log is."""
    own = model.final_regret
    rounds = model.rounds_played
    regret = "not validated" if own is None else f"regret {own:.1f} over {rounds} rounds"
    lines = [f"beta {model.mean_beta:.3f} (Eq. 5's bound: {model.beta_bound:.2f}), {regret}."]
    for name, description in BASELINES.items():
        if own is not None and name in model.curves:
            baseline = float(model.curves[name][rounds - 1].mean())
            times = f", {baseline / own:.2f} times as much" if own > 0 else ""
            lines.append(f"  {description}: {baseline:.1f}{times}")
    lines.append(f"View: tensorboard --logdir {log_dir}" if log_dir else "No log was written.")
    return "\n".join(lines)


def quiet() -> None:
    """Silence Lightning's product messages and its internal deprecation warnings; other warnings and errors stay."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*isinstance\\(treespec, LeafSpec\\).*")
    warnings.filterwarnings("ignore", message=".*LightningCLI's args parameter.*")
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="lightning.pytorch.cli")
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")  # a run that is resumed
    warnings.filterwarnings("ignore", message=".*functional.all_gather is deprecated.*")
