"""Checkpoints that are never half written, and that load without running code from the file."""

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io import CheckpointIO

from torch_softucb.atomic_io import unreadable_file, whole_file
from torch_softucb.training._checks import check_training_checkpoint


class AtomicCheckpointIO(CheckpointIO):
    """Write checkpoints atomically and load them with ``weights_only=True``, whatever the caller passes.

    A process that is killed while it saves leaves the old file or the new one, never a part of one.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        """Write to a temporary file next to the target, sync, and rename."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as file:
            torch.save(checkpoint, file)

    def load_checkpoint(
        self,
        path: str | Path,
        map_location: Callable[..., Any] | None = lambda storage, _: storage,
        weights_only: bool | None = True,
    ) -> dict[str, Any]:
        """Load a checkpoint; raise a ValueError that names the file if it cannot be read."""
        try:
            state: dict[str, Any] = torch.load(path, map_location=map_location, weights_only=True)
        except (RuntimeError, EOFError, zipfile.BadZipFile, pickle.UnpicklingError, OSError) as error:
            raise unreadable_file(path, error) from error
        check_training_checkpoint(path, state)
        return state

    def remove_checkpoint(self, path: str | Path) -> None:
        """Delete a checkpoint if it exists."""
        Path(path).unlink(missing_ok=True)
