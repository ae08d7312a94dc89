"""Policies by name, their regret on a panel, and learning beta offline and online."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from experiments.paper.problems import problems
from experiments.paper.settings import ETA_OFFLINE, ETA_ONLINE, FAIL_PROB, LR_OFFLINE, LR_ONLINE, Panel
from experiments.seeds import rollout_generators, seed_for
from experiments.sizes import Scale
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
from torch_softucb.problems.base import BanditProblem
from torch_softucb.simulation.engine import Simulation
from torch_softucb.simulation.rollout import rollout


class Learned(NamedTuple):
    """Result of offline training, with one entry per step."""

    beta: list[float]  # before each step
    regret: list[float]  # mean cumulative regret of each step's trajectories
    last: float  # final beta: mean over the last fifth of the steps


def make_policy(name: str, panel: Panel, horizon: int, value: float | None = None) -> BanditPolicy:
    """Build a policy by name.

    Args:
        name: key of :data:`experiments.paper.settings.GRIDS`.
        panel: gives dimension, number of arms, noise and range of the rewards.
        horizon: T, for settings that depend on it.
        value: of the hyper-parameter in ``GRIDS``; None: the setting of the paper, or of the policy's own source.
    """
    return _published(name, panel, horizon) if value is None else _tuned(name, panel, value)


def _published(name: str, panel: Panel, horizon: int) -> BanditPolicy:
    d, k, r = panel.dim, panel.num_arms, panel.noise_std
    theory: dict[str, Any] = {"subgaussian_r": r, "fail_prob": FAIL_PROB, "horizon": horizon}
    makers: dict[str, Callable[[], BanditPolicy]] = {
        "LinUCB": lambda: LinUCB.theoretical(d, **theory),
        "LinTS": lambda: LinTS.theoretical(d, **theory),
        "epsilon-greedy": lambda: EpsilonGreedy(d, epsilon=0.05),
        "SoftElim": lambda: SoftElim(d),
        "LinPHE": lambda: LinPHE(d, k, **_reward_range(panel)),
        "LinGiro": lambda: LinGiro(d, k, **_reward_range(panel)),
        "BootstrapThompson": lambda: BootstrapThompson(d, k),
        "BootstrappedUCB": lambda: BootstrappedUCB(d, k, subgaussian_r=r),
        "PhasedElimination": lambda: PhasedElimination(d, k, subgaussian_r=r, fail_prob=FAIL_PROB),
        "EXP3": lambda: EXP3.theoretical(d, k, horizon=horizon, **_reward_range(panel, 2 * r)),
    }
    return makers[name]()


def _tuned(name: str, panel: Panel, value: float) -> BanditPolicy:
    d, k = panel.dim, panel.num_arms
    makers: dict[str, Callable[[], BanditPolicy]] = {
        "SoftUCB, fixed beta": lambda: SoftUCBPolicy(d, beta_init=value),
        "LinUCB": lambda: LinUCB(d, beta=value),
        "LinTS": lambda: LinTS(d, scale=value),
        "epsilon-greedy": lambda: EpsilonGreedy(d, epsilon=value),
        "SoftElim": lambda: SoftElim(d, rate_init=value),
        "LinPHE": lambda: LinPHE(d, k, perturbation=value, **_reward_range(panel)),
        "LinGiro": lambda: LinGiro(d, k, pseudo=value, **_reward_range(panel)),
        "BootstrapThompson": lambda: BootstrapThompson(d, k, prior_std=value),
        "BootstrappedUCB": lambda: BootstrappedUCB(d, k, subgaussian_r=value),
        "PhasedElimination": lambda: PhasedElimination(d, k, subgaussian_r=value, fail_prob=FAIL_PROB),
        "EXP3": lambda: EXP3(d, k, exploration=value, **_reward_range(panel, 2 * panel.noise_std)),
    }
    return makers[name]()


def _reward_range(panel: Panel, margin: float = 0.0) -> dict[str, Any]:
    """Range of the mean rewards, widened on both sides for policies that need the range of the noisy ones."""
    return {"reward_low": panel.low - margin, "reward_high": panel.high + margin}


def cumulative_regret(policy: BanditPolicy, problem: BanditProblem, split: str, horizon: int) -> Tensor:  # (T, B)
    """Simulate a policy with the split's noise and return its cumulative regret; natively where the kernel knows it."""
    native = policy.native_rule(torch.zeros(1)) is not None
    trajectory = rollout(
        policy, problem, horizon=horizon, compile="native" if native else False, **rollout_generators(split)
    )
    return trajectory.cumulative_regret


def learn_offline(
    panel: Panel, scale: Scale, *, eta: float = ETA_OFFLINE, steps: int | None = None, beta_init: float = 1.0
) -> Learned:
    """Run Algorithm 2 over the family of problems: fresh ones in every step, one beta for all."""
    policy = SoftUCBPolicy(panel.dim, beta_init=beta_init)

    def episode(step: int) -> Episode:
        noise, action = (seed_for("train", step, stream) for stream in ("noise", "action"))
        return Episode(problems(panel, "train", scale.trajectories, part=step), noise, action, horizon=scale.horizon)

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
    simulation = Simulation(policy, problem, gradient=True, compile="native", **rollout_generators(split))
    return run_online(policy, simulation, horizon=horizon, eta=eta, lr=LR_ONLINE)
