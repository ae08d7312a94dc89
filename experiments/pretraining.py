"""Search for the weights of the packaged SummaryBeta: coordinate by coordinate, with common random numbers.

The first stage plays members of a family of synthetic problems, always the same ones with the same noise, so that small
differences between two sets of weights can be seen. Rollouts have no arms with separate models, so the weight of those is
chosen in a second stage, on classification tables in shuffles that the exam does not report.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Self

import torch

from experiments.exam.play import mistakes, orders
from experiments.exam.settings import DEVELOPMENT, UNITS
from torch_softucb import AutoSoftUCB, SummaryBeta
from torch_softucb.learning.episode import Episode
from torch_softucb.policies.auto import DELTA
from torch_softucb.policies.beta.summary import SCALED
from torch_softucb.problems.classification import load_classification
from torch_softucb.problems.family import Family

FAMILY = Family(
    num_arms=(2, 200),
    dim=(2, 100),
    horizon=(50, 5000),
    noise_std=(0.02, 5.0),
    noise_band=1.5,
    drifting=0.15,
    features=("sphere", "sphere", "correlated", "one_hot"),
    misfit=(0.1, 2.0),
    offset=1.0,
    changing=0.5,
    delayed=0.3,
    with_prior=0.35,
)
MOST_WORK = 2e6  # largest K d T of a member: the few above it would take most of the time
NEGLIGIBLE = 2e-3  # share of the regret of uniform play, see family_regret
PER_DIM = 0.1  # where candidates change or a prior is known, a round also costs this times K d^2
TABLES = ("nursery", "pendigits", "letter", "optdigits")  # the other two hardly depend on beta
SEPARATE = (-0.15, 0.0, 0.15)  # steps tried in the second stage
STEPS = {
    "forgotten": -1.0,
    "bias": 0.15,
    "log_rho": -0.15,
    "log_shrinkage": 0.15,
    "log_det": 0.1,
    "log_horizon": 0.25,
    "decay": 0.4,
    "explained": 0.2,
    "log_observations": -0.15,
    "log_dim": -0.1,
    "log_arms": 0.1,
}


@dataclass(frozen=True)
class Weights:
    """Parameters of a SummaryBeta, by name; those that are not listed are 0.

    Attributes:
        values: ``bias``, ``decay`` (its logarithm) and names from ``SCALED``.
    """

    values: dict[str, float]

    def moved(self, name: str, step: float) -> Self:
        """Return the weights with one of them moved."""
        return replace(self, values={**self.values, name: self.values.get(name, 0.0) + step})

    def module(self, horizon: int | None) -> SummaryBeta:
        """Return the module with these weights."""
        module = SummaryBeta(horizon=horizon, decay=math.exp(self.values["decay"]))
        with torch.no_grad():
            module.linear.bias.fill_(self.values.get("bias", 0.0))
            module.linear.weight[0] = torch.tensor([self.values.get(name, 0.0) for name in SCALED])
        return module


# found by a search with fixed arms and no priors, from decay 0.3 and zeros
FIXED_ARMS = Weights(
    {"decay": math.log(0.3) + 0.4, "log_observations": 0.075, "log_horizon": 0.125, "forgotten": -1.0, "separate_arms": 0.45}
)


def members(count: int, trajectories: int, *, seed: int) -> list[Episode]:
    """Draw members of the family with their noise, leaving out those that are too large."""
    found: list[Episode] = []
    number = 0
    while len(found) < count:
        drawn = 1_000_003 * seed + number
        number += 1
        member = FAMILY.member(seed=drawn)
        quadratic = PER_DIM * member.dim if member.items or member.known is not None else 0.0
        if member.num_arms * member.dim * (1 + quadratic) * member.horizon <= MOST_WORK:
            found.append(Episode.of_member(member, trajectories, seed=drawn))
    return found


def uniform_regret(episode: Episode) -> float:
    """Return the expected regret of uniform play per trajectory, if the largest mean were always on offer."""
    means = episode.problem.means
    assert episode.horizon is not None
    return episode.horizon * float((means.amax(-1) - means.mean(-1)).mean())


def family_regret(make: Callable[[int | None], float | SummaryBeta], episodes: Iterable[Episode]) -> float:
    """Return the mean log regret over members; in every third of them the horizon is not given.

    A share of the regret of uniform play is added to that of every member: without it, the members that have almost none
    would dominate the mean.

    Args:
        make: beta for a horizon.
        episodes: members of the family.
    """
    logs = []
    for number, episode in enumerate(episodes):
        assert episode.horizon is not None
        beta = make(None if number % 3 == 0 else episode.horizon)
        played = episode.play(
            AutoSoftUCB(episode.problem.dim, beta_init=beta, delta=DELTA), horizon=episode.horizon, compile="native"
        )
        logs.append(math.log(float(played.regret.sum(0).mean()) + NEGLIGIBLE * uniform_regret(episode)))
    return sum(logs) / len(logs)


def table_mistakes(weights: Weights, *, horizon: int, tables: Iterable[str] = TABLES) -> float:
    """Return the mean log number of mistakes on classification tables, in the development shuffles."""
    logs = []
    for name in tables:
        data = load_classification(name=name)
        order = orders(len(data.label), horizon, DEVELOPMENT)
        beta = weights.module(order.shape[1])
        policy = AutoSoftUCB(data.contexts.shape[1], beta_init=beta, delta=DELTA, dtype=torch.float64)
        logs.append(math.log(float(mistakes(policy, data, order, UNITS[0]).double().mean())))
    return sum(logs) / len(logs)


def search(
    objective: Callable[[Weights], float], start: Weights, *, sweeps: int, note: Callable[[str], None] = print
) -> Weights:
    """Minimise an objective coordinate by coordinate; a step that does not pay is halved.

    Args:
        objective: what to minimise.
        start: first weights.
        sweeps: how often every weight is tried.
        note: receives a line per improvement.
    """
    best, value, steps = start, objective(start), dict(STEPS)
    note(f"start: {value:.4f}")
    for _ in range(sweeps):
        for name, step in steps.items():
            for signed in (step, -step):
                tried = best.moved(name, signed)
                found = objective(tried)
                if found < value - 5e-4:
                    best, value, steps[name] = tried, found, signed
                    note(f"{name} {best.values[name]:+.3f}: {value:.4f}")
                    break
            else:
                steps[name] = step / 2
    return best
