"""Problems from a file of arrays: the features of the arms and their mean rewards."""

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from torch_softucb.checked_files import load_tensors
from torch_softucb.checked_files.numpy_file import load_arrays
from torch_softucb.errors import DataError
from torch_softucb.problems.base import BanditProblem

_NEEDED, _OPTIONAL = ("arms", "means"), ("mask",)


def load_problem(path: str | os.PathLike[str], *, noise_std: float) -> BanditProblem:
    """Load linear bandits with known mean rewards.

    Args:
        path: a ``.npz`` file of ``numpy.savez`` or a ``.safetensors`` file with ``arms`` of shape ``(K, d)`` or
            ``(B, K, d)``, ``means`` of shape ``(K,)`` or ``(B, K)``, and optionally a bool ``mask`` of shape ``(K,)`` or
            ``(B, K)`` that is True where an arm may be played.
        noise_std: standard deviation of the reward noise, in the unit of the means.

    Returns:
        The problems, in torch's default dtype.

    Raises:
        DataError: the file cannot be read, or its arrays are not those of a problem; the message names the file.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/problem.npz"
        >>> np.savez(path, arms=np.eye(3), means=np.array([[0.1, 0.5, 0.2], [0.9, 0.4, 0.3]]))
        >>> problem = load_problem(path, noise_std=0.5)
        >>> problem.batch_shape, problem.dim, problem.best_mean
        (torch.Size([2]), 3, tensor([0.5000, 0.9000]))
    """
    file = Path(path)
    tensors = _tensors(file)
    missing = [name for name in _NEEDED if name not in tensors]
    unknown = sorted(set(tensors) - {*_NEEDED, *_OPTIONAL})
    if missing or unknown:
        raise DataError(
            f"load_problem: {file} must have the arrays arms and means, and optionally mask, got "
            f"{', '.join(sorted(tensors)) or 'none'}; use numpy.savez(path, arms=arms, means=means)"
        )
    values = {name: tensors[name].to(torch.get_default_dtype()) for name in _NEEDED}
    try:
        return BanditProblem(**values, mask=tensors.get("mask"), noise_std=noise_std)
    except (ValueError, TypeError) as error:
        raise DataError(f"load_problem: {file}: {error}") from error


def _tensors(file: Path) -> dict[str, Tensor]:
    if file.suffix not in (".npz", ".safetensors"):
        raise DataError(f"load_problem: path must end in .npz or .safetensors, got {file}; use numpy.savez to write one")
    try:
        if file.suffix == ".safetensors":
            return load_tensors(file, checksum=False)[0]
        return {name: torch.from_numpy(_known_dtype(array)) for name, array in load_arrays(file).items()}
    except ValueError as error:
        reason = (str(error.__cause__ or error).splitlines() or ["damaged"])[0]
        raise DataError(
            f"load_problem: {file} cannot be read ({reason}); check the path, or write the file again"
        ) from error


def _known_dtype(array: np.ndarray) -> np.ndarray:
    """Return an array of a dtype that torch has."""
    lacking = (np.floating, np.unsignedinteger)  # torch does not have all of them
    return array.astype(np.float64) if any(np.issubdtype(array.dtype, each) for each in lacking) else array
