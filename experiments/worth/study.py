"""Is learning worth it? Learned betas against the best of a grid, and against rivals at the best of theirs.

Everybody may simulate the same number of rounds to choose or to learn; all are tested on problems that nobody was tuned on.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from experiments.paper.studies import ratio
from experiments.tables import Rows, having
from experiments.worth.settings import Maker, Setting, lin_ts, lin_ucb, play, soft
from torch_softucb.learning.dual import Dual
from torch_softucb.learning.fitting import fit_episodes
from torch_softucb.learning.optimisers import default_optimisation
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.policies.beta.schedule import ScheduleBeta

Track = Callable[..., Iterable[Any]]
BASELINES = {"LinUCB": (lin_ucb, 0.03, 4.0), "LinTS": (lin_ts, 0.01, 2.0)}  # maker, ends of the grid
GRID_ENDS = (0.03, 4.0)
PRETRAINED = "pretrained"


@dataclass(frozen=True)
class Budget:
    """How much is simulated."""

    test: int = 16384  # problems
    tune: int = 1024  # problems for each point of a grid
    points: int = 40
    horizon: int = 1024
    trajectories: int = 512  # a training step

    def steps(self, per_step: int) -> int:
        """Training steps that cost as many rounds as a grid does."""
        return max(1, self.points * self.tune // per_step)


FULL = Budget()
QUICK = Budget(test=16, tune=8, points=3, horizon=24, trajectories=8)


def grid(low: float, high: float, points: int) -> list[float]:
    spread = (math.log(high) - math.log(low)) / (points - 1)
    return [math.exp(math.log(low) + i * spread) for i in range(points)]


@dataclass(frozen=True)
class Lesson:
    """A way to learn: an estimator, what it moves, and by which steps."""

    estimator: str
    eta: float | str = 0.0
    beta: str = "number"  # or "schedule", "situation"
    learn_delta: bool = False
    rollouts: int = 1  # for each trajectory of a step
    start: float = 1.0


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
    """Policies of all sizes that share what is learned."""
    # the network continues from the packaged one; the cost of training that is not counted here
    first = SoftUCBPolicy.pretrained(1, horizon=horizon) if lesson.beta == "situation" else SoftUCBPolicy(1)
    settings = {"delta": float(first.delta), "learn_delta": lesson.learn_delta, "coldness": "smooth"}
    module = ScheduleBeta(horizon) if lesson.beta == "schedule" else first.beta_module
    template = SoftUCBPolicy(1, beta_init=lesson.start if module is None else module, **settings)  # type: ignore[arg-type]

    def make(dim: int, horizon: int) -> SoftUCBPolicy:
        beta = lesson.start if module is None else module.for_horizon(horizon)
        policy = template.with_beta(beta, dim=dim)
        if module is None:
            policy.raw_beta = template.raw_beta
        policy.raw_delta = template.raw_delta
        return policy

    return make


def learn(lesson: Lesson, setting: Setting, budget: Budget) -> tuple[Maker, float | None]:
    """Policies that have learned, and their beta if it is a number; regret is weighed as SoftUCBMeta does it."""
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
    """Regrets on a setting's test problems: (contenders, curves over beta)."""
    curves: Rows = []
    tested = _grids(setting, budget, curves, track)
    rows = [_row(setting, name, value, regret, tested) for name, (value, regret) in tested.items()]
    for task in track([*LESSONS, PRETRAINED], description=f"{setting.title}: learning"):
        beta: float | None = None
        if task == PRETRAINED:
            maker: Maker = lambda dim, horizon: SoftUCBPolicy.pretrained(dim, horizon=horizon)  # noqa: E731
        else:
            maker, beta = learn(LESSONS[task], setting, budget)
        regret = play(maker, setting.games("test", budget.test, budget.horizon)).regret
        rows.append(_row(setting, f"SoftUCB, {task}", beta, regret, tested))
    return rows, curves


def _grids(setting: Setting, budget: Budget, curves: Rows, track: Track) -> dict[str, Any]:
    """Everybody's best of a grid on the tuning problems, played on the test problems; SoftUCB's curve over beta."""
    found: dict[str, Any] = {}
    for name, (make, low, high) in {"SoftUCB, best fixed beta": (soft, *GRID_ENDS), **BASELINES}.items():
        tuned = []
        for value in track(grid(low, high, budget.points), description=f"{setting.title}: {name}"):
            regret = play(make(value), setting.games("tune", budget.tune, budget.horizon)).regret
            tuned.append((float(regret.mean()), value))
            error = float(regret.std() / len(regret) ** 0.5)
            curves.append({"setting": setting.title, "policy": name, "value": value, "regret": tuned[-1][0], "error": error})
        best = min(tuned)[1]
        found[name] = (best, play(make(best), setting.games("test", budget.test, budget.horizon)).regret)
    return found


def _row(setting: Setting, name: str, value: float | None, regret: Any, tested: dict[str, Any]) -> dict[str, Any]:
    baseline = min(BASELINES, key=lambda name: float(tested[name][1].mean()))
    times, _, most = ratio(regret, tested[baseline][1])
    over_best, _, over_most = ratio(regret, tested["SoftUCB, best fixed beta"][1])
    return {
        "setting": setting.title,
        "contender": name,
        "value": "" if value is None else value,
        "regret": float(regret.mean()),
        "error": float(regret.std() / len(regret) ** 0.5),
        "rival": baseline,
        "ratio": times,
        "ratio_band": most - times,
        "over_best_beta": over_best,
        "over_best_beta_band": over_most - over_best,
    }


def best_rows(rows: Rows, setting: str) -> Rows:
    """A setting's contenders, the least regret first."""
    return sorted(having(rows, setting=setting), key=lambda row: row["regret"])
