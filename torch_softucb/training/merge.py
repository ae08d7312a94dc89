"""Merge the statistics of policies and heads while Lightning trains in several processes."""

from typing import Any

import lightning as L

from torch_softucb.checks import check_integer
from torch_softucb.policies.rank_merger import RankMerger


class MergeStatistics(L.Callback):
    """Merge what the processes have observed, after every ``every_n_batches`` training batches and after every epoch.

    It merges all policies inside the LightningModule; see :class:`~torch_softucb.RankMerger`. Observations have to be made
    in ``training_step``. Lightning writes the checkpoint of a batch after the callbacks of that batch, and with the
    statistics of rank 0: with ``every_n_batches`` 1, or a divisor of the interval between checkpoints, a checkpoint holds
    the observations of all processes. Open decisions of a head stay with the process that served them.

    Args:
        every_n_batches: number of batches between merges.
    """

    def __init__(self, every_n_batches: int = 1) -> None:
        self.every_n_batches = check_integer("MergeStatistics", "every_n_batches", every_n_batches, low=1)
        self._merger: RankMerger | None = None

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Take the statistics, new or from the checkpoint, as the common start."""
        self._merger = RankMerger(pl_module)

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Merge if it is due."""
        if (batch_idx + 1) % self.every_n_batches == 0:
            self._merge()

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Merge what is left."""
        self._merge()

    def _merge(self) -> None:
        assert self._merger is not None
        self._merger.merge()
