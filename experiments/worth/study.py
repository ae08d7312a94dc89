"""Compare learned betas with the best fixed beta of a grid, and with tuned baselines.

Tuning and learning simulate the same number of rounds; all policies are tested on the same held-out problems.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from experiments.progress import Track
from experiments.sizes import Budget
from experiments.statistics import ratio, standard_error
from experiments.tables import Rows, having
from experiments.worth.settings import Maker, Setting, final_regret, lin_ts, lin_ucb, soft
from torch_softucb.learning.dual import Dual
from torch_softucb.learning.fitting import fit_episodes
from torch_softucb.learning.optimisers import default_optimisation
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.policies.beta.schedule import ScheduleBeta

BASELINES = {"LinUCB": (lin_ucb, 0.03, 4.0), "LinTS": (lin_ts, 0.01, 2.0)}  # name: maker, ends of its grid
BEST_FIXED = "SoftUCB, best fixed beta"
GRID_ENDS = (0.03, 4.0)  # of SoftUCB's beta
PRETRAINED = "pretrained"


def grid(low: float, high: float, points: int) -> list[float]:
    """Return ``points`` values from ``low`` to ``high``, evenly spaced in the logarithm."""
    spread = (math.log(high) - math.log(low)) / (points - 1)
    return [math.exp(math.log(low) + i * spread) for i in range(points)]


@dataclass(frozen=True)
class Lesson:
    """One way to learn beta: the estimator and the parameters that it trains."""

    estimator: str  # key of ESTIMATORS
    eta: float | str = 0.0  # weight of the constraint, or "auto"
    beta: str = "number"  # or "schedule", "situation"
    learn_delta: bool = False
    rollouts: int = 1  # simulations per trajectory and step
    start: float = 1.0  # initial beta


LESSONS = {
    "paper, eta 0.002": Lesson("paper", eta=0.002),
    "paper, eta auto 0.85": Lesson("paper", eta="auto"),
    "trajectory": Lesson("trajectory"),
    "common random numbers": Lesson("common_random_numbers", rollouts=3),
    "trajectory, delta too": Lesson("trajectory", learn_delta=True),
    "trajectory, schedule and delta": Lesson("trajectory", beta="schedule", learn_delta=True),
    "trajectory, situation and delta": Lesson("trajectory", beta="situation", learn_delta=True),
}


def _learner(lesson: Lesson, horizon: int) -> Callable[[int, int], SoftUCBPolicy]:
    """Return a function that builds policies of all sizes, which share what is learned."""
    # the network continues from the packaged one; the cost of training that is not counted here
    first = SoftUCBPolicy.pretrained(1, horizon=horizon) if lesson.beta == "situation" else SoftUCBPolicy(1)
    settings: dict[str, Any] = {"delta": float(first.delta), "learn_delta": lesson.learn_delta, "coldness": "smooth"}
    module = ScheduleBeta(horizon) if lesson.beta == "schedule" else first.beta_module
    template = SoftUCBPolicy(1, beta_init=lesson.start if module is None else module, **settings)

    def make(dim: int, horizon: int) -> SoftUCBPolicy:
        beta = lesson.start if module is None else module.for_horizon(horizon)
        policy = template.with_beta(beta, dim=dim)
        if module is None:
            policy.raw_beta = template.raw_beta
        policy.raw_delta = template.raw_delta
        return policy

    return make


def learn(lesson: Lesson, setting: Setting, budget: Budget) -> tuple[Maker, float | None]:
    """Learn policies of all sizes; also return beta if it is a number. Regret is weighted as SoftUCBMeta does."""
    make = _learner(lesson, budget.horizon)
    steps = budget.steps(budget.trajectories * lesson.rollouts)
    eta: float | Dual = Dual(0.85) if isinstance(lesson.eta, str) else lesson.eta
    first = make(1, budget.horizon)
    rate = 0.005 if lesson.beta == "situation" else None  # the network has learned already: smaller steps
    optimisation = default_optimisation(first, lesson.estimator, steps=steps, lr=rate, auto_eta=isinstance(eta, Dual))
    torch.manual_seed(0)
    for policy, _ in fit_episodes(
        lambda episode: make(episode.problem.dim, episode.horizon or budget.horizon),
        (setting.lesson(step, budget.trajectories, budget.horizon) for step in range(steps)),
        estimator=lesson.estimator,
        optimisation=optimisation,
        eta=eta,
        normalise=lesson.estimator != "paper",
        compile="native",
    ):
        last = policy
    return make, float(last.beta.detach()) if lesson.beta == "number" else None


def worth(setting: Setting, budget: Budget, track: Track) -> tuple[Rows, Rows]:
    """Compare all policies on one setting.

    Returns:
        Regret of each policy on the test problems, and curves of the regret over the grids.
    """
    tested, curves = _best_of_grids(setting, budget, track)
    rows = [_row(setting, name, value, regret, tested) for name, (value, regret) in tested.items()]
    for task in track([*LESSONS, PRETRAINED], f"{setting.title}: learning"):
        beta: float | None = None
        if task == PRETRAINED:
            maker: Maker = lambda dim, horizon: SoftUCBPolicy.pretrained(dim, horizon=horizon)  # noqa: E731
        else:
            maker, beta = learn(LESSONS[task], setting, budget)
        regret = final_regret(maker, setting.episodes("test", budget.test, budget.horizon))
        rows.append(_row(setting, f"SoftUCB, {task}", beta, regret, tested))
    return rows, curves


Tested = dict[str, tuple[float, Tensor]]  # name: best value of its grid, regret on the test problems (N,)


def _best_of_grids(setting: Setting, budget: Budget, track: Track) -> tuple[Tested, Rows]:
    """Tune each policy on the tuning problems and test the best value; also return the curves over the grids."""
    tested: Tested = {}
    curves: Rows = []
    for name, (make, low, high) in {BEST_FIXED: (soft, *GRID_ENDS), **BASELINES}.items():
        tuned = []
        for value in track(grid(low, high, budget.points), f"{setting.title}: {name}"):
            regret = final_regret(make(value), setting.episodes("tune", budget.tune, budget.horizon))
            tuned.append((float(regret.mean()), value))
            row = {"setting": setting.title, "policy": name, "value": value, "regret": tuned[-1][0]}
            curves.append(row | {"error": standard_error(regret)})
        best = min(tuned)[1]
        tested[name] = (best, final_regret(make(best), setting.episodes("test", budget.test, budget.horizon)))
    return tested, curves


def _row(setting: Setting, name: str, value: float | None, regret: Tensor, tested: Tested) -> dict[str, Any]:
    baseline = min(BASELINES, key=lambda name: float(tested[name][1].mean()))
    to_baseline, _, to_baseline_high = ratio(regret, tested[baseline][1])
    to_fixed, _, to_fixed_high = ratio(regret, tested[BEST_FIXED][1])
    return {
        "setting": setting.title,
        "policy": name,
        "value": "" if value is None else value,
        "regret": float(regret.mean()),
        "error": standard_error(regret),
        "baseline": baseline,
        "ratio": to_baseline,
        "ratio_band": to_baseline_high - to_baseline,
        "over_best_beta": to_fixed,
        "over_best_beta_band": to_fixed_high - to_fixed,
    }


def best_rows(rows: Rows, setting: str) -> Rows:
    """Return the rows of a setting, the lowest regret first."""
    return sorted(having(rows, setting=setting), key=lambda row: row["regret"])
