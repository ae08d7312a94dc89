"""Data module of problems that you provide: a BanditProblem, or a file of arms and mean rewards."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_softucb.checks import check_number, check_shape
from torch_softucb.learning.episode import stage_seed
from torch_softucb.problems.base import BanditProblem
from torch_softucb.problems.contextual import ContextualProblem
from torch_softucb.problems.problem_file import load_problem
from torch_softucb.training.data import EpisodeDataModule


def split_rows(count: int, *, held_out: float, seed: int) -> dict[str, Tensor]:  # stage -> (n,) int64
    """Divide rows at random into those of training, validation and test.

    Args:
        count: number of rows.
        held_out: share of the rows for validation, and as large a share for test, at least one row each. With 0, or with
            fewer than three rows, every stage has all rows.
        seed: seed of the division.

    Example:
        >>> {stage: len(rows) for stage, rows in split_rows(10, held_out=0.2, seed=0).items()}
        {'train': 6, 'validate': 2, 'test': 2}
    """
    generator = torch.Generator().manual_seed(stage_seed(seed, "train", "problem", 0))
    rows = torch.randperm(count, generator=generator)
    if count < 3 or held_out == 0:
        return dict.fromkeys(("train", "validate", "test"), rows)
    size = min(max(1, round(held_out * count)), (count - 1) // 2)
    return {"train": rows[2 * size :], "validate": rows[:size], "test": rows[size : 2 * size]}


class PoolDataModule(EpisodeDataModule):
    """Base of data modules that play given problems, some of which are kept for validation and test.

    Training goes through its problems in a random order that repeats: trajectory i of all that a run plays has problem
    i mod N. The noise is new in every step. Subclasses call :meth:`fill`.

    Args:
        held_out: share of the problems for validation, and as large a share for test, as in :func:`split_rows`.
        **sizes: arguments of :class:`~torch_softucb.training.EpisodeDataModule`.
    """

    def __init__(self, *, held_out: float = 0.2, **sizes: Any) -> None:
        super().__init__(**sizes)
        self.held_out = check_number(type(self).__name__, "held_out", held_out, low=0.0, high=0.5)
        self.pools: dict[str, BanditProblem] = {}

    def split(self, count: int) -> dict[str, Tensor]:  # stage -> (n,) int64
        """Return the rows of each stage."""
        return split_rows(count, held_out=self.held_out, seed=self.seed)

    def fill(self, problem: BanditProblem) -> None:
        """Set the problems of all stages, from a batch of shape ``(N,)``."""
        (count,) = problem.batch_shape
        self.pools = {stage: problem[rows.to(problem.means.device)] for stage, rows in self.split(count).items()}
        self.dim = problem.dim

    def problems(self, stage: str, number: int, count: int, *, first: int = 0) -> BanditProblem:
        """Return problems ``first`` to ``first + count - 1`` of a batch, with ids that count from ``first``."""
        pool = self.pools[stage]
        ids = torch.arange(first, first + count, device=pool.means.device)
        before = number * (self.trajectories if stage == "train" else self.eval_trajectories)
        return replace(pool[(before + ids) % len(pool.means)], ids=ids)


class ProblemDataModule(PoolDataModule):
    """Data module of your own problems, given by the features of the arms and their mean rewards.

    Every step plays them with new noise. With three or more problems, validation and test play problems that training does
    not. With one or two they play the same problems with other noise, as in the paper's offline setting.

    Args:
        problem: one problem, or a batch of shape ``(N,)``.
        arms: features of the arms instead, of shape ``(K, d)`` or ``(N, K, d)``, with ``means``.
        means: mean reward of each arm, of shape ``(K,)`` or ``(N, K)``.
        path: file to load instead, ``.npz`` or ``.safetensors``, with ``arms``, ``means`` and optionally ``mask``; see
            :func:`~torch_softucb.problems.load_problem`.
        noise_std: standard deviation of the reward noise; by default that of ``problem``. Required otherwise.
        held_out: share of the problems for validation, and as large a share for test, at least one each; 0 plays all
            problems in every stage.
        **sizes: ``trajectories``, ``num_steps``, ``eval_trajectories``, ``one_episode`` and ``seed`` of
            :class:`~torch_softucb.training.EpisodeDataModule`.

    Example:
        >>> from torch_softucb import synthetic_problem
        >>> data = ProblemDataModule(problem=synthetic_problem(num_problems=10, dim=4), trajectories=8)
        >>> data.dim, {stage: len(pool.means) for stage, pool in data.pools.items()}
        (4, {'train': 6, 'validate': 2, 'test': 2})
        >>> next(iter(data.train_dataloader())).problem.batch_shape
        torch.Size([8])
    """

    def __init__(
        self,
        *,
        problem: BanditProblem | None = None,
        arms: Tensor | None = None,  # (K, d) or (N, K, d)
        means: Tensor | None = None,  # (K,) or (N, K)
        path: str | None = None,
        noise_std: float | None = None,
        held_out: float = 0.2,
        **sizes: Any,
    ) -> None:
        super().__init__(held_out=held_out, **sizes)
        where = "ProblemDataModule"
        given = [name for name, value in (("problem", problem), ("arms", arms), ("path", path)) if value is not None]
        if len(given) != 1 or (arms is None) != (means is None):
            got = " and ".join(f"{name}=" for name in [*given, *(["means"] if means is not None else [])]) or "none"
            raise ValueError(
                f"{where}: expected problem=, arms= with means=, or path=, got {got}; pass problem=problem, or arms=arms, "
                "means=means, noise_std=0.5, or path='problem.npz' with noise_std="
            )
        if noise_std is not None:
            check_number(where, "noise_std", noise_std, low=0.0)
        if problem is None:
            if noise_std is None:
                raise ValueError(
                    f"{where}: noise_std must be given with {given[0]}, got None; use the rewards' standard deviation"
                )
            if path is not None:
                problem = load_problem(path, noise_std=noise_std)
            elif arms is not None and means is not None:
                problem = BanditProblem(arms, means, noise_std)
        if not isinstance(problem, BanditProblem):
            raise TypeError(f"{where}: problem must be a BanditProblem, got {type(problem).__name__}")
        if noise_std is not None:
            problem = _with_noise(where, problem, noise_std)
        fits = len(problem.batch_shape) <= 1
        check_shape(where, "means", problem.means.shape, fits, "(K,) or (N, K)")
        self.fill(problem if problem.batch_shape else problem.repeat(1))
        self.save_hyperparameters(ignore=["problem", "arms", "means"])


def _with_noise(where: str, problem: BanditProblem, noise_std: float) -> BanditProblem:
    if isinstance(problem, ContextualProblem) and problem.reward != "gaussian":
        raise ValueError(
            f"{where}: noise_std goes with Gaussian rewards, got {noise_std:g} with {problem.reward} ones, whose noise "
            "follows from the problem"
        )
    return replace(problem, noise_std=noise_std)
