"""A batch of linear bandits whose truth is known."""

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from torch_softucb.checks import check_finite, check_float_tensor, check_mask, check_same_dtype, check_shape
from torch_softucb.problems._checks import check_drift, check_has_rows, check_ids, check_noise_std


@dataclass(frozen=True, eq=False)
class BanditProblem:
    """A batch of linear bandits whose truth is known: what a rollout plays against.

    ``ids`` name the trajectories: random numbers depend on them, so ``problem[32:64]`` plays as it would have played as
    part of ``problem``.
    """

    arms: Tensor  # (K, d) shared, or (*B, K, d)
    means: Tensor  # (*B, K) true mean reward
    noise_std: float | Tensor = 0.5  # number or (*B,): standard deviation of the reward noise (D7)
    mask: Tensor | None = None  # (K,) or (*B, K), True = allowed
    ids: Tensor = field(default=None)  # type: ignore[assignment]  # (*B,) int64
    rotated_means: Tensor | None = None  # (*B, K) mean rewards after a quarter turn; None: rewards do not drift
    drift_rate: float | Tensor = 0.0  # number or (*B,): radians a round by which theta turns

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
            count = self.batch_shape.numel()
            ids = torch.arange(count, device=self.arms.device).reshape(self.batch_shape)
            object.__setattr__(self, "ids", ids)
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
        return self.means.shape[:-1]

    @property
    def num_arms(self) -> int:
        return self.means.shape[-1]

    @property
    def dim(self) -> int:
        return self.arms.shape[-1]

    @property
    def shared_arms(self) -> bool:
        return self.arms.dim() == 2

    def means_at(self, t: int) -> Tensor:  # (*B, K)
        """Mean rewards of round ``t``, from 0: theta turns in a plane, and so do they."""
        if self.rotated_means is None:
            return self.means
        angle = torch.as_tensor(self.drift_rate, dtype=self.means.dtype, device=self.means.device).unsqueeze(-1) * t
        return torch.cos(angle) * self.means + torch.sin(angle) * self.rotated_means

    @property
    def best_mean(self) -> Tensor:  # (*B,) of the first round
        means = self.means if self.mask is None else self.means.masked_fill(~self.mask, -math.inf)
        return means.amax(-1)

    def __getitem__(self, rows: int | slice | Tensor) -> "BanditProblem":
        """Some of the problems, under their own ids; rows count along the first batch dimension."""
        check_has_rows("BanditProblem", self.batch_shape)

        def cut(value: Tensor, trailing: int) -> Tensor:
            return value if value.dim() == trailing else value[rows]

        noise = cut(self.noise_std, 0) if isinstance(self.noise_std, Tensor) else self.noise_std
        mask = None if self.mask is None else cut(self.mask, 1)
        rotated_means = None if self.rotated_means is None else cut(self.rotated_means, 1)
        drift_rate = cut(self.drift_rate, 0) if isinstance(self.drift_rate, Tensor) else self.drift_rate
        return BanditProblem(cut(self.arms, 2), cut(self.means, 1), noise, mask, self.ids[rows], rotated_means, drift_rate)

    def repeat(self, count: int) -> "BanditProblem":
        """``count`` trajectories of each problem, as a new first batch dimension, each with an id of its own."""

        def grow(value: Tensor, trailing: int) -> Tensor:
            return value if value.dim() == trailing else value.expand(count, *value.shape)

        single = not self.batch_shape
        arms = self.arms if single else grow(self.arms, 2)
        noise = grow(self.noise_std, 0) if isinstance(self.noise_std, Tensor) else self.noise_std
        mask = None if self.mask is None else (self.mask if single else grow(self.mask, 1))
        rotated_means = None if self.rotated_means is None else self.rotated_means.expand(count, *self.rotated_means.shape)
        drift_rate = grow(self.drift_rate, 0) if isinstance(self.drift_rate, Tensor) else self.drift_rate
        return BanditProblem(
            arms,
            self.means.expand(count, *self.means.shape),
            noise,
            mask,
            rotated_means=rotated_means,
            drift_rate=drift_rate,
        )

    def to(self, target: torch.dtype | torch.device | str) -> "BanditProblem":
        """The same problems in another dtype or on another device."""
        noise = self.noise_std.to(target) if isinstance(self.noise_std, Tensor) else self.noise_std
        moved = not isinstance(target, torch.dtype)
        mask = self.mask.to(target) if moved and self.mask is not None else self.mask
        ids = self.ids.to(target) if moved else self.ids
        rotated_means = None if self.rotated_means is None else self.rotated_means.to(target)
        drift_rate = self.drift_rate.to(target) if isinstance(self.drift_rate, Tensor) else self.drift_rate
        moved_on = {"arms": self.arms.to(target), "means": self.means.to(target), "rotated_means": rotated_means}
        return replace(self, **moved_on, drift_rate=drift_rate, noise_std=noise, mask=mask, ids=ids)  # type: ignore[arg-type]
