"""Checkpoints that are whole at every moment, and that load without running anything from the file."""

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
    """kill -9 leaves the old file or the new one, never half of one. Loads with ``weights_only=True``, whatever is asked."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
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
        try:
            state: dict[str, Any] = torch.load(path, map_location=map_location, weights_only=True)
        except (RuntimeError, EOFError, zipfile.BadZipFile, pickle.UnpicklingError, OSError) as error:
            raise unreadable_file(path, error) from error
        check_training_checkpoint(path, state)
        return state

    def remove_checkpoint(self, path: str | Path) -> None:
        Path(path).unlink(missing_ok=True)
