"""TensorBoard output beyond the scalar curves: grouped charts, histograms, figures, hyper-parameters."""

from typing import Any

import lightning as L
from lightning.pytorch.loggers import TensorBoardLogger

from torch_softucb.training.figures import regret_figure
from torch_softucb.training.module import SoftUCBModule
from torch_softucb.training.tags import LAYOUT


class Dashboard(L.Callback):
    """Write the custom-scalars layout, the histogram of probabilities, the regret figure and the HParams row.

    Args:
        histogram_every: training steps between two histograms.
    """

    def __init__(self, histogram_every: int = 10) -> None:
        self.histogram_every = histogram_every

    def _writer(self, trainer: L.Trainer) -> Any | None:
        if not trainer.is_global_zero or trainer.sanity_checking or not isinstance(trainer.logger, TensorBoardLogger):
            return None
        return trainer.logger.experiment

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Refuse modules whose curves this dashboard does not know."""
        if not isinstance(pl_module, SoftUCBModule):
            raise TypeError(
                f"Dashboard: expected SoftUCBOffline or SoftUCBOnline, got {type(pl_module).__name__}; "
                "train it with trainer_for(callbacks=[])"
            )

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write the layout of the custom-scalars tab."""
        writer = self._writer(trainer)
        if writer is not None:
            writer.add_custom_scalars(LAYOUT)

    def on_train_batch_start(self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int) -> None:
        """Hand the rows of the steps before to the operating system: a killed run keeps what it has logged."""
        writer = self._writer(trainer)
        if writer is not None:
            writer.flush()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Write the histogram of arm probabilities."""
        writer = self._writer(trainer)
        assert isinstance(pl_module, SoftUCBModule)
        if writer is not None and pl_module.last_probs is not None and batch_idx % self.histogram_every == 0:
            writer.add_histogram("policy/probs", pl_module.last_probs, pl_module.axis_value)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Draw the regret curves of the validation."""
        writer = self._writer(trainer)
        assert isinstance(pl_module, SoftUCBModule)
        if writer is not None:
            writer.add_figure("validation/figure", regret_figure(pl_module.curves), pl_module.axis_value)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write the hyper-parameters with the final regret and beta."""
        assert isinstance(pl_module, SoftUCBModule)
        if self._writer(trainer) is not None and pl_module.final_regret is not None:
            assert isinstance(trainer.logger, TensorBoardLogger)
            final: dict[str, Any] = {"final/regret": pl_module.final_regret, "final/beta": pl_module.mean_beta}
            trainer.logger.log_hyperparams(dict(pl_module.hparams), final)
