"""Policies and problems that the tests of simulations share."""

from dataclasses import replace

import pytest
import torch

from torch_softucb import BanditProblem, EpsilonGreedy, LinTS, LinUCB, SituationBeta, SoftUCBPolicy, synthetic_problem
from torch_softucb.simulation.backends.compiled import find_compiler
from torch_softucb.simulation.engine import Simulation

NUM_ARMS, DIM = 12, 4
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")

# policies with a rule for the native kernel
POLICIES = {
    "soft_ucb": lambda dim, **settings: SoftUCBPolicy(dim, beta_init=0.7, **settings),
    "soft_ucb_lagged": lambda dim, **settings: SoftUCBPolicy(dim, beta_init=0.7, coldness="lagged", **settings),
    "soft_ucb_smooth": lambda dim, **settings: SoftUCBPolicy(dim, beta_init=0.7, coldness="smooth", **settings),
    "lin_ucb": lambda dim, **settings: LinUCB(dim, beta=0.7, **settings),
    "lin_ucb_horizon": lambda dim, **settings: LinUCB.theoretical(
        dim, horizon=100, subgaussian_r=0.5, fail_prob=0.01, **settings
    ),
    "lin_ucb_running": lambda dim, **settings: LinUCB.theoretical(dim, subgaussian_r=0.5, fail_prob=0.01, **settings),
    "lin_ts": lambda dim, **settings: LinTS(dim, scale=0.3, **settings),
    "lin_ts_theoretical": lambda dim, **settings: LinTS.theoretical(dim, subgaussian_r=0.5, fail_prob=0.01, **settings),
    "epsilon_greedy": lambda dim, **settings: EpsilonGreedy(dim, epsilon=0.1, **settings),
}
SAMPLED = {"lin_ts", "lin_ts_theoretical"}  # no probabilities in closed form


def situated(dim, **settings):
    """A policy whose beta depends on the estimates, with running sums."""
    return SoftUCBPolicy(dim, beta_init=SituationBeta.pretrained(horizon=60), coldness="lagged", **settings)


PROBLEMS = ["own arms", "shared arms", "single", "two dims", "masked", "one mask for all"]
DRIFTING = ["drift", "masked drift"]


def problem_of(name, seeded, dtype=torch.double):
    drift_rate = 0.05 if name in DRIFTING else 0.0
    problem = synthetic_problem(
        num_problems=38, num_arms=NUM_ARMS, dim=DIM, dtype=dtype, drift_rate=drift_rate, generator=seeded(0)
    )
    mask = torch.rand(38, 12, generator=seeded(1)) > 0.5
    mask[:, 3] = True
    if name == "shared arms":
        return BanditProblem(problem.arms[0], problem.means, 0.3)
    if name == "single":
        return problem[2]
    if name == "two dims":
        std = torch.rand(2, 19, generator=seeded(3)).to(dtype)
        return BanditProblem(problem.arms.view(2, 19, 12, 4), problem.means.view(2, 19, 12), std)
    if name == "masked":
        return BanditProblem(problem.arms, problem.means, 0.5, mask)
    if name == "masked drift":
        return replace(problem, mask=mask)
    if name == "one mask for all":
        return BanditProblem(problem.arms[0], problem.means, 0.5, torch.arange(12) % 3 > 0)
    return problem


def assert_plays_like_eager(compile, policy, problem, seeded, horizon=60, discount=1.0, **tolerance):
    """Equal estimates at the end are equal arms in every round; a few rounds among them are recorded."""
    soft = isinstance(policy, SoftUCBPolicy)
    runs = []
    for mode in (False, compile):
        simulation = Simulation(policy, problem, generator=seeded(9), gradient=soft, discount=discount, compile=mode)
        rounds = list(simulation.play(horizon, recorded=lambda t: t % 23 == 22))
        terms = [sum(part) for part in zip(*(play.gradient for play in rounds), strict=True)] if soft else []
        runs.append([torch.cat([play.regret for play in rounds]), *terms, *simulation.state_dict().values()])
    for eager, fast in zip(*runs, strict=True):
        torch.testing.assert_close(fast, eager, **({"atol": 1e-10, "rtol": 0} | tolerance))
