"""Checks of the numbers of a simulation's state, in play and when it is loaded from a file."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_finite, check_integer
from torch_softucb.errors import NumericalError

_ROOT_TOLERANCE = 1e-2  # of |I - root^T V root|: float32 factors of an ill-conditioned V are off by 1e-3


def check_finite_numbers(what: str, tensor: Tensor) -> None:
    """Raise NumericalError if a computed number is NaN or infinite; ``what`` begins the message."""
    if not math.isfinite(tensor.sum().item()):  # NaN and inf propagate to the sum
        bad = int((~tensor.isfinite()).sum())
        if bad:  # otherwise only the sum overflowed
            raise NumericalError(f"{what} must be finite, got {bad} NaN or infinite of {tensor.numel()} values")


class SimulationState(ABC):
    """Fields that all states of trajectories in progress have, and how they are saved. Subclasses are dataclasses.

    Attributes:
        noise_key: key of the reward noise, ``()`` int64.
        action_key: key of the action draws, ``()`` int64.
        t: number of rounds played.
    """

    noise_key: Tensor  # () int64
    action_key: Tensor  # () int64
    t: int

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @property
    @abstractmethod
    def num_observations(self) -> Tensor:  # () or (*B,)
        """Number of observations per trajectory, in the dtype of the estimates."""

    @abstractmethod
    def check_widths(self, t: int) -> None:
        """Raise NumericalError if a width is negative or NaN, naming round ``t``, counted from 0."""

    @abstractmethod
    def check_estimates(self, t: int) -> None:
        """Raise NumericalError if an estimate cannot be right, naming round ``t``, counted from 0."""

    def check_finite(self) -> None:
        """Raise NumericalError, naming the field, if a number of the state is NaN or infinite."""
        for name, value in self._fields().items():
            if isinstance(value, Tensor) and value.is_floating_point():
                check_finite_numbers(f"rollout: {name}", value)

    def state_dict(self) -> dict[str, Tensor | int]:
        """Return a copy of every field that is used, by name."""
        return {
            name: value.clone() if isinstance(value, Tensor) else value
            for name, value in self._fields().items()
            if value is not None
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Copy every field from ``saved``, which is not written to afterwards.

        Args:
            saved: a :meth:`state_dict` of a simulation of the same policy and problem.

        Raises:
            ValueError, TypeError: if a field is missing, has another shape or dtype, or a value that no simulation has; the
                state is then as before.
        """
        own = self.state_dict()
        check_saved_state("Simulation.load_state_dict", saved, own)
        copies = {name: value.clone() if isinstance(value, Tensor) else value for name, value in saved.items()}
        for name, value in own.items():
            if isinstance(value, Tensor):
                copies[name] = copies[name].to(value.device).contiguous()
        for name, value in copies.items():
            setattr(self, name, value)


def check_saved_state(where: str, saved: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise unless ``saved`` could be a state of the simulation whose present state is ``own``.

    Everything the native kernel reads is checked, so that no file can make it read or write out of bounds.

    Args:
        where: function that error messages begin with.
        saved: what was loaded, by name.
        own: the present state, by name.
    """
    if not isinstance(saved, Mapping) or saved.keys() != own.keys():
        got = sorted(map(str, saved)) if isinstance(saved, Mapping) else type(saved).__name__
        raise ValueError(
            f"{where}: expected the entries {sorted(own)}, got {got}; "
            "load it into a simulation of the same policy, problem and discount"
        )
    t = check_integer(where, "t", saved["t"], low=0)
    if t >= 2**53:
        raise ValueError(f"{where}: t must be below 2**53, got {t}")
    for name, value in own.items():
        if isinstance(value, Tensor):
            _check_tensor(where, name, saved[name], value)
    for name in ("width_sq", "offset_width_sq", "gamma", "arm_sums"):
        if name in saved and bool(((saved[name][..., 0] if name == "arm_sums" else saved[name]) < 0).any()):
            raise ValueError(f"{where}: {name} must not be negative, got {float(saved[name].min())}; the file is damaged")
    if "arm_sums" in saved and bool((saved["arm_sums"][..., 0].sum(-1) != t).any()):
        raise ValueError(f"{where}: the arm counts in arm_sums must add up to t = {t}; the file is damaged")
    if "V" in saved:
        _check_root(where, saved["V"], saved["root"])


def _check_tensor(where: str, name: str, value: object, like: Tensor) -> None:
    if not isinstance(value, Tensor) or value.layout != torch.strided:
        got = f"layout {value.layout}" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{where}: {name} must be a dense tensor, got {got}")
    if value.shape != like.shape:
        raise ValueError(
            f"{where}: {name} must have shape {tuple(like.shape)}, got {tuple(value.shape)}; "
            "load it into a simulation of the same problem"
        )
    if value.dtype != like.dtype:
        raise TypeError(
            f"{where}: {name} must have dtype {like.dtype}, got {value.dtype}; load it into a simulation of the same dtype"
        )
    if value.is_floating_point():
        check_finite(where, name, value)


def _check_root(where: str, V: Tensor, root: Tensor) -> None:  # (d, d, *B), (d, d, *B)
    V, root = (matrix.double().movedim((0, 1), (-2, -1)) for matrix in (V, root))
    error = float(F.ridge_cache_error(V, root).amax())
    if not error <= _ROOT_TOLERANCE:
        raise ValueError(
            f"{where}: root must be a factor of the inverse of V, got max |I - root^T V root| = {error:.1e}; "
            "the file is damaged"
        )
