"""Data modules: problems for training, validation and test, from disjoint streams that can be resumed at any step."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import lightning as L
import torch

from torch_softucb.checks import check_divides, check_integer, check_number
from torch_softucb.learning.episode import Episode, stage_seed
from torch_softucb.problems import synthetic_problem
from torch_softucb.problems.base import BanditProblem
from torch_softucb.problems.family import Family
from torch_softucb.training._checks import check_seed_kept


class EpisodeSource(Protocol):
    """What a loader draws its episodes from."""

    seed: int

    def episode(self, stage: str, number: int, count: int) -> Episode:
        """Return the ``number``-th batch of a stage, with ``count`` trajectories over all processes."""
        ...


class EpisodeLoader:
    """A loader whose n-th batch depends on (seed, n) alone; its state is the number of batches handed out.

    Args:
        data: where the episodes come from.
        stage: ``train``, ``validate`` or ``test``.
        steps: number of batches.
        count: trajectories per batch, over all processes.
    """

    def __init__(self, data: EpisodeSource, stage: str, steps: int, count: int) -> None:
        self.data, self.stage, self.steps, self.count, self.position = data, stage, steps, count, 0

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Episode]:
        if self.position >= self.steps:
            self.position = 0
        while self.position < self.steps:
            self.position += 1  # before the yield: a checkpoint written during this batch counts it as handed out
            yield self.data.episode(self.stage, self.position - 1, self.count)

    def state_dict(self) -> dict[str, Any]:
        """Return the seed and the number of batches handed out."""
        return {"seed": self.data.seed, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the batches that were handed out before."""
        check_seed_kept(type(self.data).__name__, self.data.seed, state["seed"])
        self.position = state["position"]


def planned_steps(trainer: L.Trainer) -> int:
    """Count the optimiser steps of a run without opening the loader.

    ``trainer.estimated_stepping_batches`` opens it, and Lightning restores a loader's position only if it opens the loader
    later: a resumed run would see its first batches again.
    """
    batches = getattr(getattr(trainer, "datamodule", None), "num_steps", None)
    if batches is None or trainer.max_epochs is None or trainer.max_epochs < 0:
        return max(1, int(trainer.estimated_stepping_batches))
    limit = trainer.limit_train_batches
    batches = min(batches, limit) if isinstance(limit, int) else int(batches * limit)
    steps = math.ceil(batches / trainer.accumulate_grad_batches) * trainer.max_epochs
    return max(1, steps if trainer.max_steps < 0 else min(steps, trainer.max_steps))


class EpisodeDataModule(L.LightningDataModule):
    """Base of data modules that serve episodes; subclasses define ``problems`` (or ``episode``) and ``dim``.

    Args:
        trajectories: trajectories per training step, over all processes.
        num_steps: training steps.
        eval_trajectories: trajectories per batch of validation and of test.
        one_episode: every step continues the same trajectories (online learning). Validation then plays the baselines on the
            same problems and noise.
        seed: seed of all random numbers; training, validation and test have separate streams.

    Attributes:
        dim: number of features of the problems.
        eval_batches: number of batches in validation and in test.
    """

    dim: int
    eval_batches = 1

    def __init__(
        self,
        *,
        trajectories: int = 256,
        num_steps: int = 100,
        eval_trajectories: int = 256,
        one_episode: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        where = type(self).__name__
        if type(self) is EpisodeDataModule:
            raise TypeError(
                f"{where}: expected a subclass, such as BanditDataModule or ProblemDataModule, got the base class"
            )
        self.trajectories = check_integer(where, "trajectories", trajectories, low=1)
        self.num_steps = check_integer(where, "num_steps", num_steps, low=1)
        held_out = check_integer(where, "eval_trajectories", eval_trajectories, low=1)
        self.eval_trajectories = self.trajectories if one_episode else held_out
        self.one_episode = one_episode
        self.seed = check_integer(where, "seed", seed, low=0)

    def __str__(self) -> str:  # Lightning's version looks for a dataset in each batch
        sizes = ("trajectories", "num_steps", "eval_trajectories", "one_episode", "seed")
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in sizes)})"

    def problems(self, stage: str, number: int, count: int, *, first: int = 0) -> BanditProblem:
        """Return problems ``first`` to ``first + count - 1`` of a batch."""
        raise AttributeError(f"{type(self).__name__} must define problems(stage, number, count, first=)")

    def episode(self, stage: str, number: int, count: int) -> Episode:
        """Return this process's share of a batch; a trajectory's random numbers do not depend on the process."""
        if self.one_episode:
            stage, number = "train", 0
        share, first = self._share("trajectories" if stage == "train" else "eval_trajectories", count)
        noise, action = (stage_seed(self.seed, stage, stream, number) for stream in ("noise", "action"))
        return Episode(self.problems(stage, number, share, first=first), noise, action)

    def _share(self, name: str, count: int) -> tuple[int, int]:
        """Return this process's number of trajectories, and the first of them."""
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer is not None else (0, 1)
        check_divides(type(self).__name__, name, count, "processes", world)
        return count // world, rank * (count // world)

    def train_dataloader(self) -> EpisodeLoader:
        """Return the loader of training episodes."""
        return EpisodeLoader(self, "train", self.num_steps, self.trajectories)

    def val_dataloader(self) -> EpisodeLoader:
        """Return the loader of validation episodes."""
        return EpisodeLoader(self, "validate", self.eval_batches, self.eval_trajectories)

    def test_dataloader(self) -> EpisodeLoader:
        """Return the loader of test episodes."""
        return EpisodeLoader(self, "test", self.eval_batches, self.eval_trajectories)

    def transfer_batch_to_device(self, batch: Episode, device: torch.device, dataloader_idx: int) -> Episode:
        """Move an episode to a device."""
        return batch.to(device)


class BanditDataModule(EpisodeDataModule):
    """Data module of synthetic problems (Sec. 5 of the paper) for learning beta.

    Args:
        num_arms: K.
        dim: d.
        noise_std: standard deviation of the reward noise.
        fresh_problems: draw new problems in every step (one beta for a family of problems). Otherwise one fixed problem is
            played with new noise every time, as in the paper's offline setting.
        **sizes: ``trajectories``, ``num_steps``, ``eval_trajectories``, ``one_episode`` and ``seed`` of
            :class:`EpisodeDataModule`.
    """

    def __init__(
        self, *, num_arms: int = 50, dim: int = 10, noise_std: float = 0.5, fresh_problems: bool = False, **sizes: Any
    ) -> None:
        super().__init__(**sizes)
        where = "BanditDataModule"
        self.num_arms = check_integer(where, "num_arms", num_arms, low=1)
        self.dim = check_integer(where, "dim", dim, low=1)
        self.noise_std = check_number(where, "noise_std", noise_std, low=0.0)
        self.fresh_problems = fresh_problems
        self._cached: dict[tuple[str, int, int, int], BanditProblem] = {}
        self.save_hyperparameters()

    def problems(self, stage: str, number: int, count: int, *, first: int = 0) -> BanditProblem:
        """Draw ``count`` problems of a batch, starting with problem ``first``; with a fixed problem, its copies."""
        key = (stage, number if self.fresh_problems else 0, count, first)
        if key not in self._cached:
            self._cached = {key: self._draw(stage, number, count, first)}
        return self._cached[key]

    def _draw(self, stage: str, number: int, count: int, first: int) -> BanditProblem:
        sizes: dict[str, Any] = {"num_arms": self.num_arms, "dim": self.dim, "noise_std": self.noise_std}
        if not self.fresh_problems:
            generator = torch.Generator().manual_seed(stage_seed(self.seed, "train", "problem", 0))
            fixed = synthetic_problem(num_problems=1, generator=generator, **sizes)[0]
            return fixed.repeat(first + count)[first:]
        generator = torch.Generator().manual_seed(stage_seed(self.seed, stage, "problem", number))
        return synthetic_problem(num_problems=count, first=first, generator=generator, **sizes)


class FamilyDataModule(EpisodeDataModule):
    """Data module that serves one member of a family per step; validation and test use members that training never drew.

    Members differ in their number of features, which :class:`SoftUCBMeta` learns over. For :class:`SoftUCBOffline`, whose
    policy has one ``dim`` and which plays its own horizon, give a family with one number of features: ``dim=(10, 10)``.

    Args:
        family: family that members are drawn from.
        eval_members: number of members in validation and in test.
        trajectories: trajectories per step, over all processes.
        num_steps: training steps.
        eval_trajectories: trajectories per evaluation member.
        seed: seed of all random numbers; training, validation and test have separate streams.
    """

    def __init__(
        self,
        *,
        family: Family | None = None,
        eval_members: int = 12,
        trajectories: int = 256,
        num_steps: int = 300,
        eval_trajectories: int = 64,
        seed: int = 0,
    ) -> None:
        super().__init__(trajectories=trajectories, num_steps=num_steps, eval_trajectories=eval_trajectories, seed=seed)
        self.family = Family() if family is None else family
        self.eval_batches = check_integer("FamilyDataModule", "eval_members", eval_members, low=1)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Number of features, if all members have the same."""
        low, high = self.family.dim
        if low != high or "one_hot" in self.family.features:
            raise ValueError(
                f"FamilyDataModule: all members must have the same number of features to train one policy, got dim "
                f"{(low, high)} and features {self.family.features}; use dim=({low:g}, {low:g}) without one_hot, or "
                "SoftUCBMeta, which learns over all sizes"
            )
        return round(low)

    def episode(self, stage: str, number: int, count: int) -> Episode:
        """Return this process's share of the problems of one member."""
        seed = stage_seed(self.seed, stage, "problem", number)
        share, first = self._share("trajectories", count)
        episode = Episode.of_member(self.family.member(seed=seed), count, seed=seed)
        return replace(episode, problem=episode.problem[first : first + share])
