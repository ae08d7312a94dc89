"""Run folders: find the run to continue after an interruption, and mark those that are finished."""

import atexit
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lightning as L
import torch.distributed as dist
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.strategies import DDPStrategy, Strategy
from torch._C._distributed_c10d import PrefixStore, TCPStore

from torch_softucb.training._checks import check_same_start
from torch_softucb.training.checkpoint import AtomicCheckpointIO

_FINISHED = "finished"


class Run(NamedTuple):
    """A run that was started before.

    Attributes:
        folder: its folder, ``version_N``.
        checkpoint: its last checkpoint; None if it was interrupted before it wrote one.
        position: position of the checkpoint on the x-axis of TensorBoard; -1 without a checkpoint.
    """

    folder: Path
    checkpoint: Path | None
    position: int

    @property
    def logger_options(self) -> dict[str, Any]:
        """Arguments of TensorBoardLogger that continue in this folder, and hide the curves after the checkpoint."""
        return {"version": int(self.folder.name.removeprefix("version_")), "purge_step": self.position + 1}


def last_run(
    log_dir: str | Path = "lightning_logs",
    *,
    finished: bool = False,
    accept: Callable[[Path], bool] = lambda folder: True,
) -> Run | None:
    """Return the newest run in a log folder that was interrupted; None if there is none.

    Args:
        log_dir: folder of the runs, as in :func:`trainer_for`.
        finished: whether to return a finished run too.
        accept: condition on the run's folder.

    Raises:
        ValueError: if the checkpoint of that run cannot be read.
    """
    numbers = [folder.name.removeprefix("version_") for folder in Path(log_dir).glob("version_*") if folder.is_dir()]
    for number in sorted((int(number) for number in numbers if number.isdecimal()), reverse=True):
        folder = Path(log_dir) / f"version_{number}"
        if accept(folder) and (finished or not (folder / _FINISHED).exists()):
            checkpoint = folder / "checkpoints" / "last.ckpt"
            if not checkpoint.exists():
                return Run(folder, None, -1)
            return Run(folder, checkpoint, int(AtomicCheckpointIO().load_checkpoint(checkpoint).get("axis_value", -1)))
    return None


def restarted_by_torchrun() -> bool:
    """Return whether torchrun has started this process again after a failure."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def join_restarted_group(strategy: Strategy) -> None:
    """Join the process group of a worker group that torchrun has restarted on one machine.

    torchrun keeps one store for all restarts, and with it the addresses of the processes that died. A process that reads an
    old address before its new one is written waits for minutes. Here each restart has separate keys. On several machines
    the number of restarts differs between them; there, run torchrun with ``TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1``.
    """
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and os.environ.get("GROUP_WORLD_SIZE") == "1"
    if not (restarted_by_torchrun() and shared and isinstance(strategy, DDPStrategy)) or dist.is_initialized():
        return
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, is_master=False)
    own = PrefixStore(f"restart_{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    backend = strategy.process_group_backend or dist.get_default_backend_for_device(strategy.root_device)
    dist.init_process_group(backend, store=own, rank=rank, world_size=world)


class RunGuard(L.Callback):
    """Check that all processes start from the same checkpoint, and mark the run's folder when training is finished.

    From then on, a process leaves its process group before Python shuts down: threads of gloo that outlive the interpreter
    sometimes abort the process, with an exit code other than 0 (pytorch/pytorch#179291).
    """

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Compare this process's checkpoint with that of rank 0."""
        mine = None if trainer.ckpt_path is None else str(trainer.ckpt_path)
        check_same_start(type(pl_module).__name__, mine, trainer.strategy.broadcast(mine), trainer.global_rank)

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Mark the folder, and leave the process group at exit; an interrupted run does not come here."""
        if dist.is_available() and dist.is_initialized():
            atexit.register(leave_process_group)
        if trainer.is_global_zero and isinstance(trainer.logger, TensorBoardLogger):
            folder = Path(trainer.logger.log_dir)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _FINISHED).touch()


def leave_process_group() -> None:
    """Leave the process group, if there still is one."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
