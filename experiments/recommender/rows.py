"""The policies of the comparison, each tuned with the same number of simulations on known users."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb import (
    AutoSoftUCB,
    BanditPolicy,
    ContextualProblem,
    EpsilonGreedy,
    GaussianPrior,
    LinTS,
    LinUCB,
    SoftUCBPolicy,
    fit,
    rollout,
)

BUDGET = 8  # simulations of all known users with which each policy is tuned
MULTIPLES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 2.0)  # settings that are tried, times a typical one
TRAJECTORIES = 512  # most of them per step of learning beta: a step is about one simulation


class Setting(NamedTuple):
    """What is known before the first new user.

    Attributes:
        dim: number of features.
        horizon: recommendations per user.
        prior: fitted to all known users, for the new ones.
        tuning: world of known users to tune on.
        tuning_prior: fitted to the other known users, so that those of ``tuning`` are new to it.
        seed: seed of the random numbers.
    """

    dim: int
    horizon: int
    prior: GaussianPrior
    tuning: ContextualProblem
    tuning_prior: GaussianPrior
    seed: int = 0


class Tuned(NamedTuple):
    """A policy for the new users, and the number that tuning chose; None if there was nothing to choose."""

    policy: BanditPolicy
    chosen: float | None


def play(policy: BanditPolicy, world: ContextualProblem, horizon: int, seed: int) -> Tensor:  # (horizon, users)
    """Return the regret of every recommendation; all policies meet the same candidates, noise and delays."""
    pools = isinstance(policy, AutoSoftUCB) and policy.pooled
    action, noise = torch.Generator().manual_seed(seed + 1), torch.Generator().manual_seed(seed)
    kernel = False if pools else "native"
    return rollout(policy, world, horizon=horizon, generator=action, noise_generator=noise, compile=kernel).regret


def tune(
    make: Callable[[float, GaussianPrior | None], BanditPolicy], values: Sequence[float], setting: Setting, use_prior: bool
) -> Tuned:
    """Return the policy with the value that has the lowest regret on known users."""
    before = setting.tuning_prior if use_prior else None
    regret = [float(play(make(v, before), setting.tuning, setting.horizon, setting.seed).sum(0).mean()) for v in values]
    best = values[min(range(len(values)), key=regret.__getitem__)]
    return Tuned(make(best, setting.prior if use_prior else None), best)


def learned(setting: Setting, use_prior: bool) -> Tuned:
    """Learn beta by :func:`torch_softucb.fit` on known users, with the same number of simulations."""
    policy = SoftUCBPolicy.auto(setting.tuning.dim, beta_init=1.0, prior=setting.tuning_prior if use_prior else None)
    fit(
        policy,
        setting.tuning,
        horizon=setting.horizon,
        estimator="trajectory",
        steps=BUDGET,
        trajectories=max(8, min(TRAJECTORIES, setting.tuning.batch_shape[0] // 8 * 8)),
        seed=setting.seed,
        compile="native",
    )
    beta = float(policy.beta.detach())
    return Tuned(SoftUCBPolicy.auto(setting.dim, beta_init=beta, prior=setting.prior if use_prior else None), beta)


def prior_rows(setting: Setting, done: Callable[[str], object] = lambda name: None) -> dict[str, Tuned]:
    """Return the policies with the prior, by name."""
    d, rows = setting.dim, {"greedy, prior": Tuned(EpsilonGreedy(setting.dim, epsilon=0.0, prior=setting.prior), None)}
    for name, make, values in _families(d, setting.prior.noise_std):
        rows[f"{name}, prior"] = tune(make, values, setting, True)
        done(name)
    rows["SoftUCB, learned beta, prior"] = learned(setting, True)
    done("SoftUCB")
    rows["auto, prior"] = Tuned(SoftUCBPolicy.auto(d, prior=setting.prior), None)
    rows["auto, prior, horizon"] = Tuned(SoftUCBPolicy.auto(d, prior=setting.prior, horizon=setting.horizon), None)
    return rows


def _families(d: int, unit: float) -> list[tuple[str, Callable[[float, GaussianPrior | None], BanditPolicy], list[float]]]:
    """Return the policies with a number to tune, and its values; widths are in ``unit``."""

    def of(prior: GaussianPrior | None) -> int:  # worlds to tune on may have fewer features
        return d if prior is None else prior.dim

    scales, shares = [multiple * unit for multiple in MULTIPLES], [0.1 * multiple for multiple in MULTIPLES]
    return [
        ("epsilon-greedy", lambda v, p: EpsilonGreedy(of(p), epsilon=v, prior=p), shares),
        ("LinUCB", lambda v, p: LinUCB(of(p), beta=v, prior=p), scales),
        ("LinTS", lambda v, p: LinTS(of(p), scale=v, prior=p), scales),
    ]


def all_rows(setting: Setting, done: Callable[[str], object] = lambda name: None) -> dict[str, Tuned]:
    """Return every policy of the table by name, without and with the prior."""
    d = setting.dim
    ridges = [4.0**power for power in range(-3, BUDGET - 3)]
    rows = {"greedy": tune(lambda v, _: EpsilonGreedy(d, epsilon=0.0, ridge_alpha=v), ridges, setting, False)}
    done("greedy")
    for name, make, values in _families(d, 1.0):
        rows[name] = tune(make, values, setting, False)
        done(name)
    rows["SoftUCB, beta 1"] = Tuned(SoftUCBPolicy(d), None)
    rows["SoftUCB, learned beta"] = learned(setting, False)
    done("SoftUCB")
    rows["auto"] = Tuned(SoftUCBPolicy.auto(d, pooled=True), None)
    return rows | prior_rows(setting, done)
