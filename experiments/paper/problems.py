"""Problems of a panel: random ones, or real ratings whose users are the arms (Appendix G)."""

import functools

import numpy as np
from numpy.typing import NDArray

from experiments.paper.settings import Panel
from experiments.seeds import generator_for
from torch_softucb.problems import fill_gaps, load_jester, load_movielens, synthetic_problem, user_features, users_problem
from torch_softucb.problems.base import BanditProblem


@functools.cache
def _ratings(source: str) -> NDArray[np.float64]:
    return load_jester() if source == "jester" else fill_gaps(load_movielens())


@functools.cache
def _features(panel: Panel) -> NDArray[np.float64]:
    others = np.delete(_ratings(panel.source), panel.target, axis=1)
    return user_features(others, dim=panel.dim - panel.intercept, intercept=panel.intercept)


def linear_share(panel: Panel) -> float:
    """Return R^2 over all users: the share of the target's variance that a linear model of the features explains."""
    features, rewards = _features(panel), _ratings(panel.source)[:, panel.target]
    design = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    left = rewards - design @ np.linalg.lstsq(design, rewards, rcond=None)[0]
    return float(1 - left.var() / rewards.var())


def problems(panel: Panel, split: str, count: int, part: int = 0, *, study: str = "paper") -> BanditProblem:
    """Draw ``count`` problems of a panel.

    Args:
        panel: the family of problems.
        split: "train", "tune" or "test"; splits, and parts of a split, share no problem.
        count: number of problems.
        part: number of the batch within the split.
        study: whose seeds to use, see :func:`experiments.seeds.seed_for`.
    """
    generator = generator_for(split, part, "problem", study=study)
    if panel.source == "synthetic":
        return synthetic_problem(
            num_problems=count, num_arms=panel.num_arms, dim=panel.dim, noise_std=panel.noise_std, generator=generator
        )
    return users_problem(
        _features(panel),
        _ratings(panel.source)[:, panel.target],
        num_problems=count,
        num_arms=panel.num_arms,
        noise_std=panel.noise_std,
        generator=generator,
    )
