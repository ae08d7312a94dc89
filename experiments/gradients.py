"""Bias and noise of the gradient estimators, and the betas that they lead to from different starting points."""

import time
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from experiments.progress import Track
from experiments.seeds import generator_for, seed_for
from experiments.sizes import Budget, GradientSize
from experiments.statistics import ratio, standard_error
from experiments.tables import Rows
from experiments.worth.settings import Setting, final_regret, soft
from experiments.worth.study import GRID_ENDS, Lesson, grid, learn
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.score_function import CONTROL_VARIATES, REPLICATES, slopes
from torch_softucb.learning.estimators.score_function import play as play_several
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.problems import synthetic_problem

BETAS = (0.2, 0.35, 0.5, 0.75, 1.0, 1.5)
STARTS = (0.05, 1.0, 4.0)
STEP = 0.03  # of the central differences, relative to beta
_LESSONS = {"trajectory": Lesson("trajectory"), "differences": Lesson("common_random_numbers", rollouts=3)}


def _chunks(size: GradientSize, split: str) -> Iterator[Episode]:
    """Yield batches of ``size.chunk`` trajectories."""
    for part in range(size.trajectories // size.chunk):
        generator = generator_for(split, part, "problem", study="gradients")
        problem = synthetic_problem(num_problems=size.chunk, dim=10, generator=generator)
        noise, action = (seed_for(split, part, stream, study="gradients") for stream in ("noise", "action"))
        yield Episode(problem, noise, action)


def _summary(samples: list[Tensor]) -> tuple[float, float]:
    """Mean of independent numbers, and its standard error."""
    values = torch.cat(samples).double()
    return float(values.mean()), standard_error(values)


def _differences(beta: float, coldness: str, size: GradientSize) -> tuple[float, float]:
    """Estimate the derivative of the reward by central differences with common random numbers, on a separate split."""
    samples = []
    for episode in _chunks(size, "differences"):
        low, high = (
            episode.play(
                SoftUCBPolicy(10, beta_init=beta * side, coldness=coldness), horizon=size.horizon, compile="native"
            ).regret.sum(0)
            for side in (1 - STEP, 1 + STEP)
        )
        samples.append((low - high) / (2 * STEP * beta))
    return _summary(samples)


def _estimates(beta: float, coldness: str, size: GradientSize) -> dict[str, tuple[float, float]]:
    """Mean and standard error of each estimator, all on the same trajectories."""
    samples: dict[str, list[Tensor]] = {name: [] for name in (*CONTROL_VARIATES, "paper")}
    policy = SoftUCBPolicy(10, beta_init=beta, coldness=coldness)
    for episode in _chunks(size, "estimator"):
        played = play_several(policy, episode, horizon=size.horizon, compile="native")
        best = episode.problem.best_mean[: size.chunk // REPLICATES]
        for name in CONTROL_VARIATES:
            samples[name].append(slopes(played, control_variate=name, best_mean=best).sum(0).mean(0))
        samples["paper"].append(played.scores["reward_slope"].sum(0).mean(0))
    estimates = {f"trajectory, {name}": _summary(samples[name]) for name in CONTROL_VARIATES}
    return estimates | {"paper (eta 0)": _summary(samples["paper"])}


def bias(size: GradientSize, track: Track) -> Rows:
    """Compare the mean of each estimator with finite differences of the regret, at several betas."""
    rows: Rows = []
    work = [(beta, coldness) for beta in BETAS for coldness in ("smooth", "current")]
    for beta, coldness in track(work, "Bias and noise"):
        truth, truth_error = _differences(beta, coldness, size)
        estimates = _estimates(beta, coldness, size) | {"common random numbers": (truth, truth_error)}
        for name, (mean, error) in estimates.items():
            differences = name == "common random numbers"  # two rollouts per trajectory
            rounds = size.trajectories * size.horizon * (2 if differences else 1)
            rows.append(
                {
                    "beta": beta,
                    "coldness": coldness,
                    "estimator": name,
                    "mean": mean,
                    "error": error,
                    "difference": truth,
                    "difference_error": truth_error,
                    "off": 0.0 if differences else (mean - truth) / (error**2 + truth_error**2) ** 0.5,
                    "error_for_given_rounds": error * (rounds / size.given) ** 0.5,
                }
            )
    return rows


def starts(settings: list[Setting], budget: Budget, track: Track) -> Rows:
    """Learn beta from three starting points, and compare the result with the best beta of a grid."""
    rows: Rows = []
    for setting in track(settings, "From 0.05, 1 and 4"):
        tuned = [
            (float(final_regret(soft(value), setting.episodes("tune", budget.tune, budget.horizon)).mean()), value)
            for value in grid(*GRID_ENDS, budget.points)
        ]
        best = min(tuned)[1]
        best_regret = final_regret(soft(best), setting.episodes("test", budget.test, budget.horizon))
        for start in STARTS:
            for name, lesson in _LESSONS.items():
                began = time.perf_counter()
                make, beta = learn(replace(lesson, start=start), setting, budget)
                seconds = time.perf_counter() - began
                regret = final_regret(make, setting.episodes("test", budget.test, budget.horizon))
                to_best, _, to_best_high = ratio(regret, best_regret)
                rows.append(
                    {
                        "setting": setting.title,
                        "estimator": name,
                        "start": start,
                        "beta": beta,
                        "best_beta": best,
                        "over_best_beta": to_best,
                        "over_best_beta_band": to_best_high - to_best,
                        "seconds": round(seconds, 1),
                    }
                )
    return rows
