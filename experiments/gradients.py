"""How good the gradients are: their bias, their noise for a given number of simulated rounds, and where they lead."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from experiments.paper.studies import ratio
from experiments.tables import Rows
from experiments.worth.settings import Setting, play, soft
from experiments.worth.study import GRID_ENDS, Budget, Lesson, Track, grid, learn
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.score_function import CONTROL_VARIATES, REPLICATES, slopes
from torch_softucb.learning.estimators.score_function import play as play_several
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.problems import synthetic_problem
from torch_softucb.rng import mixed_seed

BETAS = (0.2, 0.35, 0.5, 0.75, 1.0, 1.5)
STARTS = (0.05, 1.0, 4.0)
STARTS_BUDGET = Budget(tune=2048, trajectories=1024)  # 80 steps of 1,024 trajectories
STEP = 0.03  # of the differences: half the distance of the two sides, as a share of beta


@dataclass(frozen=True)
class Size:
    """Of the study of bias."""

    trajectories: int = 204_800
    chunk: int = 8192
    horizon: int = 256
    given: int = 2048 * 256  # simulated rounds that the standard errors are stated for


FULL = Size()
QUICK = Size(trajectories=64, chunk=32, horizon=48)


def _chunks(size: Size, stream: int) -> Iterator[Episode]:
    for part in range(size.trajectories // size.chunk):
        generator = torch.Generator().manual_seed(mixed_seed(23, stream, part, 0))
        problem = synthetic_problem(num_problems=size.chunk, dim=10, generator=generator)
        yield Episode(problem, mixed_seed(23, stream, part, 1), mixed_seed(23, stream, part, 2))


def _summary(samples: list[Tensor]) -> tuple[float, float]:
    """Mean and its standard error, of independent numbers."""
    every = torch.cat(samples).double()
    return float(every.mean()), float(every.std() / len(every) ** 0.5)


def _differences(beta: float, coldness: str, size: Size) -> tuple[float, float]:
    """dJ/dbeta by central differences with common random numbers, on trajectories of their own."""
    found = []
    for episode in _chunks(size, 1):
        ends = [
            episode.play(
                SoftUCBPolicy(10, beta_init=beta * side, coldness=coldness), horizon=size.horizon, compile="native"
            ).regret.sum(0)
            for side in (1 - STEP, 1 + STEP)
        ]
        found.append((ends[0] - ends[1]) / (2 * STEP * beta))
    return _summary(found)


def bias(size: Size, track: Track) -> Rows:
    """Every estimator's mean at every beta beside finite differences of the regret, and its standard error."""
    rows: Rows = []
    work = [(beta, coldness) for beta in BETAS for coldness in ("smooth", "current")]
    for beta, coldness in track(work, description="Bias and noise"):
        truth, error = _differences(beta, coldness, size)
        found: dict[str, list[Tensor]] = {name: [] for name in (*CONTROL_VARIATES, "paper")}
        policy = SoftUCBPolicy(10, beta_init=beta, coldness=coldness)
        for episode in _chunks(size, 0):
            played = play_several(policy, episode, horizon=size.horizon, compile="native")
            best = episode.problem.best_mean[: size.chunk // REPLICATES]
            for name in CONTROL_VARIATES:
                found[name].append(slopes(played, control_variate=name, best_mean=best).sum(0).mean(0))
            found["paper"].append(played.scores["reward_slope"].sum(0).mean(0))
        means = {f"trajectory, {name}": _summary(parts) for name, parts in found.items() if name != "paper"}
        means |= {"paper (eta 0)": _summary(found["paper"]), "common random numbers": (truth, error)}
        for name, (mean, own) in means.items():
            costs = 2 if name.startswith("common") else 1
            rounds = size.trajectories * size.horizon * costs
            rows.append(
                {
                    "beta": beta,
                    "coldness": coldness,
                    "estimator": name,
                    "mean": mean,
                    "error": own,
                    "difference": truth,
                    "difference_error": error,
                    "off": 0.0 if costs == 2 else (mean - truth) / (own**2 + error**2) ** 0.5,
                    "error_for_given_rounds": own * (rounds / size.given) ** 0.5,
                }
            )
    return rows


def starts(settings: list[Setting], budget: Budget, track: Track) -> Rows:
    """Where `trajectory` and differences end from three beginnings, against the best beta of the grid."""
    rows: Rows = []
    for setting in track(settings, description="From 0.05, 1 and 4"):
        tuned = [
            (float(play(soft(value), setting.games("tune", budget.tune, budget.horizon)).regret.mean()), value)
            for value in grid(*GRID_ENDS, budget.points)
        ]
        best = min(tuned)[1]
        tested = play(soft(best), setting.games("test", budget.test, budget.horizon)).regret
        for start in STARTS:
            for name, lesson in (("trajectory", Lesson("trajectory")), ("differences", _DIFFERENCES)):
                began = time.perf_counter()
                make, beta = learn(replace(lesson, start=start), setting, budget)
                seconds = time.perf_counter() - began
                own = play(make, setting.games("test", budget.test, budget.horizon)).regret
                times, _, most = ratio(own, tested)
                rows.append(
                    {
                        "setting": setting.title,
                        "estimator": name,
                        "start": start,
                        "beta": beta,
                        "best_beta": best,
                        "over_best_beta": times,
                        "over_best_beta_band": most - times,
                        "seconds": round(seconds, 1),
                    }
                )
    return rows


_DIFFERENCES = Lesson("common_random_numbers", rollouts=3)
