"""Checkpoints that are never half written, and that load without running code from the file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import lightning as L
from lightning.fabric.plugins.io import CheckpointIO

from torch_softucb.checked_files import load_checked, open_checked, save_checked
from torch_softucb.policies.state_checks import check_names, check_parameters
from torch_softucb.training._checks import check_declared_sizes, check_training_checkpoint


class AtomicCheckpointIO(CheckpointIO):
    """Write checkpoints atomically and load them with ``weights_only=True``, whatever the caller passes.

    A process that is killed while it saves leaves the old file or the new one, never a part of one. The file ends with a
    checksum, which is verified before the file is parsed; checkpoints of plain Lightning, without one, are refused until
    :func:`torch_softucb.checked_files.add_checksum` has added it. Plain Lightning and ``torch.load`` read both.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        """Write to a temporary file next to the target, sync, and rename."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        save_checked(target, checkpoint)

    def load_checkpoint(
        self,
        path: str | Path,
        map_location: Callable[..., Any] | None = lambda storage, _: storage,
        weights_only: bool | None = True,
    ) -> dict[str, Any]:
        """Load a checkpoint; raise a ValueError that names the file if it cannot be read or is damaged."""
        state: dict[str, Any] = load_checked(path, map_location)
        check_training_checkpoint(path, state)
        return state

    def remove_checkpoint(self, path: str | Path) -> None:
        """Delete a checkpoint if it exists."""
        Path(path).unlink(missing_ok=True)


class CheckedModule(L.LightningModule):
    """LightningModule whose checkpoints are verified before they are loaded."""

    def check_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Raise ValueError if this module cannot continue from the checkpoint; changes nothing."""
        check_names(type(self).__name__, self, checkpoint["state_dict"])
        check_parameters(type(self).__name__, self, checkpoint["state_dict"])

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Check the checkpoint before it is loaded."""
        path = None if self._trainer is None else self._trainer.ckpt_path
        check_training_checkpoint(path or "", checkpoint)
        try:
            self.check_checkpoint(checkpoint)
        except ValueError as error:
            if path is None:
                raise
            raise ValueError(f"checkpoint {path}: {error}") from error

    @classmethod
    def load_from_checkpoint(cls, checkpoint_path: Any, *args: Any, **kwargs: Any) -> Self:
        """Load a trained module; see :meth:`lightning.LightningModule.load_from_checkpoint`.

        The file's checksum is verified first, and the file is loaded with ``weights_only=True``.

        Args:
            checkpoint_path: file that a trainer with :class:`AtomicCheckpointIO` wrote.
            *args: as in Lightning.
            **kwargs: as in Lightning; keywords of the constructor replace those of the checkpoint.

        Raises:
            ValueError: if the file has no checksum, is damaged, or is not the checkpoint of such a module.
        """
        saved = load_checked(checkpoint_path)
        check_training_checkpoint(checkpoint_path, saved)
        settings = {**saved.get("hyper_parameters", {}), **kwargs}
        check_declared_sizes(checkpoint_path, settings, saved["state_dict"])
        load = super().load_from_checkpoint
        with open_checked(checkpoint_path) as file:
            try:
                return load(file, *args, **{**kwargs, "weights_only": True})
            except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
                raise ValueError(f"checkpoint {checkpoint_path}: {error}") from error
