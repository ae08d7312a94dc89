"""From a decision log to a learned policy and an estimate of its gain, in one call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.from_logs.evaluate import LogValue, evaluate_on_log, split_log, warm_start
from torch_softucb.from_logs.learn import learn_beta
from torch_softucb.from_logs.posterior import ProblemPosterior, fit_posterior, radius
from torch_softucb.from_logs.simulate import Key, baselines, logged_regret, simulated_regret
from torch_softucb.policies import BanditPolicy, LinUCB, SoftUCBPolicy
from torch_softucb.recommend import LoggedDecisions

LEARNED = "SoftUCB, learned beta"
_GRID = (1 / 8, 1 / 4, 1 / 2, 2**-0.5, 2**0.5, 2, 4, 8)  # multiples of the learned beta in the regret curve


class LearnedFromLog(NamedTuple):
    """Result of :func:`learn_from_log`, with the numbers of the report.

    Attributes:
        policy: policy with beta and statistics learned from the whole log.
        posterior: posterior of the whole log.
        decisions: number of decisions in the log, with or without a reward.
        reward_mean: mean of the rewards.
        horizon: number of rounds T that beta was learned for.
        radius: beta of Eq. 5.
        betas: beta before each optimiser step and after the last.
        regret: cumulative regret over T rounds of each policy, of shape ``(problems,)``, all on the same drawn problems.
        curve: regret by beta of SoftUCB and of LinUCB, each of shape ``(problems,)``, on the same problems, sorted by beta.
        logged: posterior draws of the mean regret per logged decision, of shape ``(draws,)``, by set of decisions; empty if
            the candidate sets are unknown.
        earlier_beta: beta of the policy behind ``value``, learned from the earlier decisions only; the last of ``betas`` if
            there is no ``value``.
        value: off-policy estimates on the later decisions; None if the candidate sets are unknown.
    """

    policy: SoftUCBPolicy
    posterior: ProblemPosterior
    decisions: int
    reward_mean: float
    horizon: int
    radius: float
    betas: list[float]
    regret: dict[str, Tensor]  # (problems,)
    curve: dict[float, tuple[Tensor, Tensor]]  # (problems,), (problems,)
    logged: dict[str, Tensor]  # (draws,)
    earlier_beta: float
    value: LogValue | None


@dataclass(frozen=True)
class _Settings:
    """Arguments of :func:`learn_from_log` that its steps share."""

    horizon: int
    steps: int
    trajectories: int
    problems: int
    num_arms: int
    delta: float
    ridge_alpha: float
    estimator: str
    seed: int
    compile: bool | str
    progress: Callable[[str, int], object]

    def radius(self, posterior: ProblemPosterior) -> float:
        return radius(posterior, horizon=self.horizon, ridge_alpha=self.ridge_alpha)


def learn_from_log(
    log: LoggedDecisions,
    *,
    horizon: int,
    share: float = 0.5,
    steps: int = 50,
    trajectories: int = 512,
    problems: int = 1024,
    num_arms: int = 50,
    delta: float = 0.99,
    ridge_alpha: float = 1.0,
    estimator: str = "common_random_numbers",
    seed: int = 0,
    compile: bool | str = "native",
    progress: Callable[[str, int], object] | None = None,
) -> LearnedFromLog:
    """Learn a SoftUCB policy from a decision log, and estimate its gain.

    Fits the posterior of the problem, learns beta on problems drawn from it, simulates the regret on other draws, and
    evaluates off-policy on decisions that the evaluated policy did not learn from.

    Args:
        log: decisions with propensities, made by any policy.
        horizon: number of rounds T over which the policy should perform well when it starts without observations.
        share: share of the decisions, the earlier ones, that the policy learns from for off-policy evaluation; the later
            ones evaluate it. The returned policy has learned from all decisions.
        steps: number of optimiser steps for learning beta.
        trajectories: number of trajectories per step.
        problems: number of drawn problems on which regret is measured; beta was learned on others.
        num_arms: candidates of a drawn problem if the log does not contain any.
        delta: delta of Eq. 9.
        ridge_alpha: ridge weight alpha.
        estimator: gradient estimator, as in :func:`learn_beta`.
        seed: seed of problems, noise and action draws.
        compile: backend of the rollouts, as in :func:`~torch_softucb.rollout`.
        progress: called after every unit of work with (stage, number of units in this stage).
    """
    check_integer("learn_from_log", "horizon", horizon, low=1)
    settings = _Settings(
        horizon=horizon,
        steps=steps,
        trajectories=trajectories,
        problems=problems,
        num_arms=num_arms,
        delta=delta,
        ridge_alpha=ridge_alpha,
        estimator=estimator,
        seed=seed,
        compile=compile,
        progress=progress or (lambda stage, total: None),
    )
    posterior = fit_posterior(log, num_arms=num_arms)
    policy, betas = _learn_policy(posterior, settings, stage="Learning beta")
    value, earlier_beta = None, betas[-1]
    if posterior.offered.known:
        value, earlier_beta = _evaluate(log, posterior, settings, share)
    regret, curve = _simulate(posterior, policy, settings)
    warm_start(policy, log)
    return LearnedFromLog(
        policy=policy,
        posterior=posterior,
        decisions=len(log.reward),
        reward_mean=float(log.rewarded.reward.mean()),
        horizon=horizon,
        radius=settings.radius(posterior),
        betas=betas,
        regret=regret,
        curve=curve,
        logged=_logged(posterior, settings),
        earlier_beta=earlier_beta,
        value=value,
    )


def _learn_policy(posterior: ProblemPosterior, settings: _Settings, *, stage: str) -> tuple[SoftUCBPolicy, list[float]]:
    """Learn beta on problems drawn from the posterior, starting from a quarter of the beta of Eq. 5."""
    policy = SoftUCBPolicy(
        posterior.dim,
        beta_init=settings.radius(posterior) / 4,
        delta=settings.delta,
        ridge_alpha=settings.ridge_alpha,
        coldness="smooth",
    )
    betas = learn_beta(
        lambda count, generator: posterior.draw(count, generator=generator),
        policy,
        horizon=settings.horizon,
        steps=settings.steps,
        trajectories=settings.trajectories,
        estimator=settings.estimator,
        seed=settings.seed,
        compile=settings.compile,
        progress=lambda *_: settings.progress(stage, settings.steps),
    )
    return policy, betas


def _evaluate(
    log: LoggedDecisions, posterior: ProblemPosterior, settings: _Settings, share: float
) -> tuple[LogValue, float]:
    """Learn a policy from the earlier decisions and evaluate it on the later ones; also return its beta."""
    earlier, later = split_log(log, share=share)
    past = fit_posterior(earlier, num_arms=settings.num_arms)
    policy, betas = _learn_policy(past, settings, stage="Learning beta, earlier decisions")
    warm_start(policy, earlier, num_bandits=int(log.bandit.max()) + 1)
    candidates = posterior.offered.select(slice(len(earlier.arm), None))
    return evaluate_on_log(policy, later, candidates=candidates, posterior=past), betas[-1]


def _simulate(
    posterior: ProblemPosterior, policy: SoftUCBPolicy, settings: _Settings
) -> tuple[dict[str, Tensor], dict[float, tuple[Tensor, Tensor]]]:
    """Return the regret of the learned policy and its baselines, and regret as a function of beta."""
    learned, bound = float(policy.beta.detach()), settings.radius(posterior)
    grid = [max(learned, bound / 64) * factor for factor in _GRID]
    named = {LEARNED: policy, **baselines(policy, radius=bound)}
    soft_ucb = {beta: policy.with_beta(beta) for beta in grid}
    lin_ucb = {beta: LinUCB(policy.dim, beta=beta, ridge_alpha=policy.ridge_alpha) for beta in grid}
    total = len(named) + len(soft_ucb) + len(lin_ucb)

    def play(policies: Mapping[Key, BanditPolicy]) -> dict[Key, Tensor]:
        return simulated_regret(
            posterior,
            policies,
            horizon=settings.horizon,
            problems=settings.problems,
            seed=settings.seed,
            compile=settings.compile,
            progress=lambda: settings.progress("Playing drawn problems", total),
        )

    regret, soft_regret, lin_regret = play(named), play(soft_ucb), play(lin_ucb)
    curve = {beta: (soft_regret[beta], lin_regret[beta]) for beta in grid}
    curve[learned] = regret[LEARNED], regret["LinUCB, same beta"]
    return regret, dict(sorted(curve.items()))


def _logged(posterior: ProblemPosterior, settings: _Settings) -> dict[str, Tensor]:
    """Return the regret of the logged decisions, over all of them and, for a single bandit, over the first T."""
    if not posterior.offered.known:
        return {}
    ranges: dict[str, int | None] = {"all decisions": None}
    if len(posterior.names) == 1:
        ranges["its first T decisions"] = settings.horizon
    return {
        name: logged_regret(posterior, first=first, generator=torch.Generator().manual_seed(settings.seed))
        for name, first in ranges.items()
    }
