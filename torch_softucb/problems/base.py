"""A batch of linear bandits whose true mean rewards are known."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from torch_softucb.checks import check_finite, check_float_tensor, check_mask, check_same_dtype, check_shape
from torch_softucb.problems._checks import check_drift, check_has_rows, check_ids, check_noise_std

_SHARED_DIMS = {  # dimensions of a field that the batch shares
    "arms": 2,
    "mask": 1,
    "noise_std": 0,
    "drift_rate": 0,
    "sets": 2,
    "weights": 1,
    "residuals": 1,
    "delay": 1,
}
_NOT_FLOATING = ("mask", "ids", "sets")  # fields that keep their dtype


@dataclass(eq=False)
class BanditProblem:
    """A batch of linear bandits with known true means: the environment of a rollout.

    Treat instances as immutable: fields are checked once, at construction, and problems share tensors with the problems they
    were made from. Use :func:`dataclasses.replace` to change a field.

    Attributes:
        arms: feature vectors of the arms, of shape ``(K, d)`` if all bandits share them, else ``(*B, K, d)``.
        means: true mean reward of every arm in round 0, of shape ``(*B, K)``.
        noise_std: standard deviation of the Gaussian reward noise, a number or a tensor of shape ``(*B,)`` (D7).
        mask: True where an arm may be played, of shape ``(K,)`` or ``(*B, K)``; None allows all arms.
        ids: int64 id of every trajectory, of shape ``(*B,)``; counted from 0 by default. Random numbers are keyed by it, so
            ``problem[32:64]`` plays exactly as it does as part of ``problem``.
        rotated_means: mean rewards after theta has rotated by a quarter turn, of shape ``(*B, K)``; None if the
            rewards do not drift.
        drift_rate: angle in radians per round by which theta rotates, a number or a tensor of shape ``(*B,)``.

    Example:
        >>> problem = BanditProblem(arms=torch.eye(2), means=torch.tensor([[1.0, 0.0], [0.2, 0.6]]))
        >>> problem.batch_shape, problem.num_arms, problem.best_mean
        (torch.Size([2]), 2, tensor([1.0000, 0.6000]))
        >>> problem[1:].ids
        tensor([1])
    """

    arms: Tensor  # (K, d) or (*B, K, d)
    means: Tensor  # (*B, K)
    noise_std: float | Tensor = 0.5  # number or (*B,)
    mask: Tensor | None = None  # (K,) or (*B, K)
    ids: Tensor = None  # type: ignore[assignment]  # (*B,) int64; None only as an argument
    rotated_means: Tensor | None = None  # (*B, K)
    drift_rate: float | Tensor = 0.0  # number or (*B,)

    def __post_init__(self) -> None:
        where = "BanditProblem"
        check_float_tensor(where, "arms", self.arms)
        check_float_tensor(where, "means", self.means, device=self.arms.device)
        check_same_dtype(where, "means", self.means, "the arms'", self.arms.dtype)
        k, shape = self.means.shape[-1:], self.arms.shape
        expected = "(K, d) or (*B, K, d), with means (*B, K)"
        check_shape(where, "arms", shape, self.arms.dim() >= 2 and shape[:-1] in (k, self.means.shape), expected)
        check_shape(where, "arms", shape, shape[-2] >= 1 and shape[-1] >= 1, "with at least one arm and one feature")
        check_finite(where, "arms", self.arms)
        check_finite(where, "means", self.means)
        check_mask(where, self.mask, self.means.shape, device=self.arms.device)
        check_noise_std(where, self.noise_std, self.batch_shape)
        if self.ids is None:
            self.ids = torch.arange(self.batch_shape.numel(), device=self.arms.device).reshape(self.batch_shape)
        check_ids(where, self.ids, self.batch_shape)
        if self.rotated_means is not None:
            check_float_tensor(where, "rotated_means", self.rotated_means, device=self.arms.device)
            check_same_dtype(where, "rotated_means", self.rotated_means, "the arms'", self.arms.dtype)
            fits = self.rotated_means.shape == self.means.shape
            check_shape(where, "rotated_means", self.rotated_means.shape, fits, f"of means {tuple(self.means.shape)}")
            check_finite(where, "rotated_means", self.rotated_means)
        check_drift(where, self.drift_rate, self.batch_shape, drifts=self.rotated_means is not None)

    @property
    def batch_shape(self) -> torch.Size:
        """Shape ``*B`` of the batch of bandits; empty for a single one."""
        return self.means.shape[:-1]

    @property
    def num_arms(self) -> int:
        """Number of arms K."""
        return self.means.shape[-1]

    @property
    def dim(self) -> int:
        """Number of features d."""
        return self.arms.shape[-1]

    @property
    def shared_arms(self) -> bool:
        """Whether all bandits have the same arms."""
        return self.arms.dim() == 2

    @property
    def best_mean(self) -> Tensor:  # (*B,)
        """Largest mean reward among the allowed arms in round 0."""
        means = self.means if self.mask is None else self.means.masked_fill(~self.mask, -math.inf)
        return means.amax(-1)

    def means_at(self, t: int) -> Tensor:  # (*B, K)
        """Return the mean rewards of round ``t``, counted from 0.

        theta(t) = cos(angle) theta + sin(angle) theta', where theta' is theta rotated by a quarter turn and the angle is
        ``drift_rate * t``. Mean rewards are linear in theta, so they follow the same formula.
        """
        if self.rotated_means is None:
            return self.means
        angle = torch.as_tensor(self.drift_rate, dtype=self.means.dtype, device=self.means.device).unsqueeze(-1) * t
        return torch.cos(angle) * self.means + torch.sin(angle) * self.rotated_means

    def __getitem__(self, rows: int | slice | Tensor) -> Self:
        """Select bandits along the first batch dimension; they keep their ids."""
        check_has_rows("BanditProblem", self.batch_shape)
        return replace(self, **{name: value[rows] for name, value in self._per_bandit().items()})

    def repeat(self, count: int) -> Self:
        """Return ``count`` copies of each bandit along a new first batch dimension, with new ids counted from 0."""
        copies: dict[str, Any] = {name: value.expand(count, *value.shape) for name, value in self._per_bandit().items()}
        return replace(self, **copies | {"ids": None})

    def to(self, target: torch.dtype | torch.device | str) -> Self:
        """Return the same problems in another dtype or on another device. ``mask`` and ``ids`` keep their dtype."""
        fixed = _NOT_FLOATING if isinstance(target, torch.dtype) else ()
        return replace(self, **{name: value.to(target) for name, value in self._tensors().items() if name not in fixed})

    def _tensors(self) -> dict[str, Tensor]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def _per_bandit(self) -> dict[str, Tensor]:
        """Tensors with an entry per bandit. The others hold for the whole batch."""
        return {name: value for name, value in self._tensors().items() if value.dim() != _SHARED_DIMS.get(name)}
