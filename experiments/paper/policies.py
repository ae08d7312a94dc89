"""Playing the settings: problems of a panel, policies by name, learning beta offline and online."""

import functools
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.paper.settings import ETA_OFFLINE, ETA_ONLINE, FAIL_PROB, LR_OFFLINE, LR_ONLINE, Panel, Scale
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.fitting import fit_episodes
from torch_softucb.learning.online import OnlineRun, run_online
from torch_softucb.learning.optimisers import Optimisation
from torch_softucb.policies import (
    EXP3,
    BanditPolicy,
    BootstrappedUCB,
    BootstrapThompson,
    EpsilonGreedy,
    LinGiro,
    LinPHE,
    LinTS,
    LinUCB,
    PhasedElimination,
    SoftElim,
    SoftUCBPolicy,
)
from torch_softucb.problems import fill_gaps, load_jester, load_movielens, synthetic_problem, user_features, users_problem
from torch_softucb.problems.base import BanditProblem
from torch_softucb.rng import mixed_seed
from torch_softucb.simulation.engine import Simulation
from torch_softucb.simulation.rollout import rollout

NUM_ARMS = 50
_SPLITS = ("train", "sweep", "test")


class Learned(NamedTuple):
    """A training run, one entry a step."""

    beta: list[float]  # before the step
    regret: list[float]  # mean cumulative regret of its trajectories
    last: float  # beta at the end: mean of the last fifth of the run


@functools.cache
def _ratings(source: str) -> NDArray[np.float64]:
    return load_jester() if source == "jester" else fill_gaps(load_movielens())


@functools.cache
def _features(panel: Panel) -> NDArray[np.float64]:
    others = np.delete(_ratings(panel.source), panel.target, axis=1)
    return user_features(others, dim=panel.dim - panel.intercept, intercept=panel.intercept)


def linear_share(panel: Panel) -> float:
    """Share of the target's variance over all users that a linear model of the features explains (R^2)."""
    features, rewards = _features(panel), _ratings(panel.source)[:, panel.target]
    design = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    left = rewards - design @ np.linalg.lstsq(design, rewards, rcond=None)[0]
    return float(1 - left.var() / rewards.var())


def problems(panel: Panel, split: str, count: int, part: int = 0) -> BanditProblem:
    """``count`` problems; splits and parts of a split have nothing in common but the family they come from."""
    generator = torch.Generator().manual_seed(mixed_seed(_SPLITS.index(split), part, 1))
    if panel.source == "synthetic":
        return synthetic_problem(
            num_problems=count, num_arms=NUM_ARMS, dim=panel.dim, noise_std=panel.noise_std, generator=generator
        )
    return users_problem(
        _features(panel),
        _ratings(panel.source)[:, panel.target],
        num_problems=count,
        num_arms=NUM_ARMS,
        noise_std=panel.noise_std,
        generator=generator,
    )


def make(name: str, panel: Panel, horizon: int, value: float | None = None) -> BanditPolicy:
    """A policy at the setting ``value`` of its grid, or at the paper's (its source's) when it is None."""
    d, k, r = panel.dim, NUM_ARMS, panel.noise_std
    theory: dict[str, Any] = {"subgaussian_r": r, "fail_prob": FAIL_PROB, "horizon": horizon}
    span: dict[str, Any] = {"reward_low": panel.low, "reward_high": panel.high}
    noisy: dict[str, Any] = {"reward_low": panel.low - 2 * r, "reward_high": panel.high + 2 * r}
    if value is None:
        published: dict[str, Any] = {
            "LinUCB": lambda: LinUCB.theoretical(d, **theory),
            "LinTS": lambda: LinTS.theoretical(d, **theory),
            "epsilon-greedy": lambda: EpsilonGreedy(d, epsilon=0.05),
            "SoftElim": lambda: SoftElim(d),
            "LinPHE": lambda: LinPHE(d, k, **span),
            "LinGiro": lambda: LinGiro(d, k, **span),
            "BootstrapThompson": lambda: BootstrapThompson(d, k),
            "BootstrappedUCB": lambda: BootstrappedUCB(d, k, subgaussian_r=r),
            "PhasedElimination": lambda: PhasedElimination(d, k, subgaussian_r=r, fail_prob=FAIL_PROB),
            "EXP3": lambda: EXP3.theoretical(d, k, horizon=horizon, **noisy),
        }
        policy: BanditPolicy = published[name]()
        return policy
    tuned: dict[str, Any] = {
        "SoftUCB, fixed beta": lambda: SoftUCBPolicy(d, beta_init=value),
        "LinUCB": lambda: LinUCB(d, beta=value),
        "LinTS": lambda: LinTS(d, scale=value),
        "epsilon-greedy": lambda: EpsilonGreedy(d, epsilon=value),
        "SoftElim": lambda: SoftElim(d, rate_init=value),
        "LinPHE": lambda: LinPHE(d, k, perturbation=value, **span),
        "LinGiro": lambda: LinGiro(d, k, pseudo=value, **span),
        "BootstrapThompson": lambda: BootstrapThompson(d, k, prior_std=value),
        "BootstrappedUCB": lambda: BootstrappedUCB(d, k, subgaussian_r=value),
        "PhasedElimination": lambda: PhasedElimination(d, k, subgaussian_r=value, fail_prob=FAIL_PROB),
        "EXP3": lambda: EXP3(d, k, exploration=value, **noisy),
    }
    policy = tuned[name]()
    return policy


def _generators(split: str) -> dict[str, Any]:
    """Of a split's action draws and reward noise: the same for every policy."""
    at = _SPLITS.index(split)
    return {
        "generator": torch.Generator().manual_seed(mixed_seed(at, 0, 2)),
        "noise_generator": torch.Generator().manual_seed(mixed_seed(at, 0, 3)),
    }


def play(policy: BanditPolicy, problem: BanditProblem, split: str, horizon: int) -> Tensor:  # (T, B)
    """Cumulative regret; by the native kernel where the policy has one."""
    known = policy.native_rule(torch.zeros(1)) is not None
    return rollout(
        policy, problem, horizon=horizon, compile="native" if known else False, **_generators(split)
    ).cumulative_regret


def learn_offline(
    panel: Panel, scale: Scale, *, eta: float = ETA_OFFLINE, steps: int | None = None, beta_init: float = 1.0
) -> Learned:
    """Run Algorithm 2 over the family of problems: fresh ones in every step, one beta for all."""
    policy = SoftUCBPolicy(panel.dim, beta_init=beta_init)

    def episode(step: int) -> Episode:
        problem = problems(panel, "train", scale.trajectories, part=step)
        return Episode(problem, mixed_seed(0, step, 3), mixed_seed(0, step, 2), horizon=scale.horizon)

    betas, regrets = [], []
    for _, signal in fit_episodes(
        lambda _: policy,
        map(episode, range(scale.steps if steps is None else steps)),
        estimator="paper",
        optimisation=Optimisation(torch.optim.SGD(policy.parameters(), lr=LR_OFFLINE)),
        eta=eta,
        compile="native",
    ):
        betas.append(float(policy.beta.detach()))
        regrets.append(float(signal.trajectory.regret.sum(0).mean()))
    betas.append(float(policy.beta.detach()))
    tail = betas[-max(1, len(betas) // 5) :]
    return Learned(betas[:-1], regrets, sum(tail) / len(tail))


def learn_online(
    panel: Panel, problem: BanditProblem, split: str, horizon: int, *, eta: float = ETA_ONLINE, beta_init: float = 1.0
) -> OnlineRun:
    """Run Algorithm 3: every trajectory moves its own beta after every round."""
    policy = SoftUCBPolicy(panel.dim, beta_init=torch.full((problem.batch_shape.numel(),), beta_init))
    simulation = Simulation(policy, problem, gradient=True, compile="native", **_generators(split))
    return run_online(policy, simulation, horizon=horizon, eta=eta, lr=LR_ONLINE)
