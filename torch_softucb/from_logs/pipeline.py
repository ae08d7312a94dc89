"""From a decision log to a learned policy and an estimate of its gain, in one call."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_choice, check_integer
from torch_softucb.from_logs._checks import check_delay, check_dense_ids
from torch_softucb.from_logs.evaluate import LogValue, greedy_of, start_of, warm_start
from torch_softucb.from_logs.learn import learn_beta
from torch_softucb.from_logs.posterior import ProblemPosterior, fit_posterior, misfit, radius
from torch_softucb.from_logs.prior import fit_prior
from torch_softucb.from_logs.simulate import Key, baselines, logged_regret, simulated_regret
from torch_softucb.from_logs.source import LogData, log_data
from torch_softucb.from_logs.stream import Source
from torch_softucb.from_logs.summary import LogSummary
from torch_softucb.from_logs.worlds import NOISES
from torch_softucb.policies import BanditPolicy, LinUCB, SoftUCBPolicy
from torch_softucb.policies._checks import check_prior
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.problems.base import BanditProblem
from torch_softucb.recommend import LoggedDecisions
from torch_softucb.rng import mixed_seed

LEARNED = "SoftUCB, learned beta"
GREEDY = "greedy"
TUNED = "LinUCB, best fixed beta"
_TUNING = 1  # mixed into the seed of the problems that LinUCB is tuned on
_GRID = (1 / 8, 1 / 4, 1 / 2, 2**-0.5, 2**0.5, 2, 4, 8)  # multiples of the learned beta in the regret curve


class LearnedFromLog(NamedTuple):
    """Result of :func:`learn_from_log`, with the numbers of the report.

    Attributes:
        policy: policy with beta and statistics learned from the whole log.
        posterior: posterior of the whole log.
        decisions: number of decisions in the log, with or without a reward.
        rewarded: number of decisions with a reward.
        reward_mean: mean of the rewards.
        horizon: number of rounds T that beta was learned for.
        radius: beta of Eq. 5.
        tuned_beta: beta of LinUCB with the least regret on problems other than those of ``regret``.
        betas: beta before each optimiser step and after the last.
        regret: cumulative regret over T rounds of each policy, of shape ``(problems,)``, all on the same drawn problems.
        curve: regret by beta of SoftUCB and of LinUCB, each of shape ``(problems,)``, on the same problems, sorted by beta.
        logged: posterior draws of the mean regret per logged decision, of shape ``(draws,)``, by set of decisions; empty if
            the candidate sets are unknown.
        earlier_beta: beta of the policy behind ``value``, learned from the earlier decisions only; the last of ``betas`` if
            there is no ``value``.
        value: off-policy estimates on the later decisions; None if the candidate sets are unknown, or if files that are
            streamed have no propensities.
    """

    policy: SoftUCBPolicy
    posterior: ProblemPosterior
    decisions: int
    rewarded: int
    reward_mean: float
    horizon: int
    radius: float
    tuned_beta: float
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
    prior: GaussianPrior | None
    noise: str
    delay: int | Tensor
    estimator: str
    seed: int
    compile: bool | str
    progress: Callable[[str, int], object]

    def radius(self, posterior: ProblemPosterior) -> float:
        alpha = 1.0 if self.prior is not None else self.ridge_alpha
        return radius(posterior, horizon=self.horizon, ridge_alpha=alpha, prior=self.prior)

    def fit_posterior(self, summary: LogSummary) -> ProblemPosterior:
        return fit_posterior(summary, num_arms=self.num_arms, prior=self.prior)

    def draw(self, posterior: ProblemPosterior) -> Callable[[int, torch.Generator], BanditProblem]:
        return lambda count, generator: posterior.draw(count, generator=generator, noise=self.noise, delay=self.delay)


def learn_from_log(
    log: LoggedDecisions | Source,
    *,
    horizon: int,
    share: float = 0.5,
    per_user: bool = True,
    prior: GaussianPrior | Literal["fit"] | None = None,
    noise: str = "gaussian",
    delay: int | Sequence[float] | Tensor = 0,
    steps: int = 50,
    trajectories: int = 512,
    problems: int = 1024,
    num_arms: int = 50,
    delta: float = 0.99,
    ridge_alpha: float = 1.0,
    estimator: str = "common_random_numbers",
    seed: int = 0,
    compile: bool | str = "native",
    engine: str = "local",
    progress: Callable[[str, int], object] | None = None,
) -> LearnedFromLog:
    """Learn a SoftUCB policy from a decision log, and estimate its gain.

    Fits the posterior of the problem, learns beta on problems drawn from it, simulates the regret on other draws, and
    evaluates off-policy on decisions that the evaluated policy did not learn from.

    Args:
        log: decisions made by any policy; or a folder of Parquet files, or several files, which are streamed twice, once to
            learn and once to evaluate, and may be larger than memory.
        horizon: number of rounds T over which the policy should perform well when it starts without observations.
        share: share of the decisions, the earlier ones, that the policy learns from for off-policy evaluation; the later
            ones evaluate it. The returned policy has learned from all decisions.
        per_user: one theta per bandit id of the log; False takes all decisions as those of one bandit.
        prior: prior that every bandit of the policy starts from; ``"fit"`` fits one to the users of the earlier decisions
            (:func:`fit_prior`). By default theta starts at 0 with ``ridge_alpha``.
        noise: noise of the simulated worlds, ``gaussian`` or ``empirical``, drawn from the residuals of the log.
        delay: rounds by which rewards are late in simulated worlds, or the probabilities of 0, 1, ... rounds, such as
            those of :func:`logged_delays`.
        steps: number of optimiser steps for learning beta.
        trajectories: number of trajectories per step.
        problems: number of drawn problems on which regret is measured; beta was learned on others.
        num_arms: candidates of a drawn problem if the log does not contain any.
        delta: delta of Eq. 9.
        ridge_alpha: ridge weight alpha.
        estimator: gradient estimator, as in :func:`learn_beta`.
        seed: seed of problems, noise and action draws.
        compile: backend of the rollouts, as in :func:`~torch_softucb.rollout`.
        engine: how files are streamed, ``local`` or ``ray``; see :func:`summarise_log`.
        progress: called after every unit of work with (stage, number of units in this stage).
    """
    where = "learn_from_log"
    check_integer(where, "horizon", horizon, low=1)
    check_choice(where, "noise", noise, NOISES)
    late = check_delay(where, delay)
    data = log_data(log, per_user=per_user, engine=engine, seed=seed)
    past, summary = data.summaries(share)
    if bool((summary.names >= 0).any()):
        if bool((summary.names < 0).any()):
            raise ValueError(
                f"{where}: either all decisions or none must have a bandit id, got some with -1; use per_user=False"
            )
        check_dense_ids(where, int(summary.names.max()) + 1, len(summary.names))
    settings = _Settings(
        horizon=horizon,
        steps=steps,
        trajectories=trajectories,
        problems=problems,
        num_arms=num_arms,
        delta=delta,
        ridge_alpha=ridge_alpha,
        prior=_start(prior, past, ridge_alpha),
        noise=noise,
        delay=late,
        estimator=estimator,
        seed=seed,
        compile=compile,
        progress=progress or (lambda stage, total: None),
    )
    posterior = settings.fit_posterior(summary)
    if (problem := misfit(posterior)) is not None:
        warnings.warn(f"{where}: {problem}", stacklevel=2)
    policy, betas = _learn_policy(posterior, settings, stage="Learning beta")
    value, earlier_beta = None, betas[-1]
    if posterior.offered.known and data.can_evaluate(summary):
        value, earlier_beta = _evaluate(data, summary, past, settings)
    regret, curve, tuned_beta = _simulate(posterior, policy, settings)
    warm_start(policy, summary)
    return LearnedFromLog(
        policy=policy,
        posterior=posterior,
        decisions=summary.decisions,
        rewarded=int(summary.sums.num_observations.sum()),
        reward_mean=summary.reward_mean,
        horizon=horizon,
        radius=settings.radius(posterior),
        tuned_beta=tuned_beta,
        betas=betas,
        regret=regret,
        curve=curve,
        logged=_logged(posterior, settings),
        earlier_beta=earlier_beta,
        value=value,
    )


def _start(prior: GaussianPrior | Literal["fit"] | None, past: LogSummary, ridge_alpha: float) -> GaussianPrior | None:
    """Return the prior of the policy; one that is fitted does not use the decisions of the evaluation."""
    where = "learn_from_log"
    if isinstance(prior, str):
        check_choice(where, "prior", prior, ("fit",))
        if len(past.names) == 1:
            raise ValueError(f"{where}: prior='fit' needs at least two users, got one; log bandit=, and keep per_user=True")
        prior = fit_prior(past.sums)
    if prior is not None:
        check_prior(where, prior, past.dim, ridge_alpha)
    return prior


def _learn_policy(posterior: ProblemPosterior, settings: _Settings, *, stage: str) -> tuple[SoftUCBPolicy, list[float]]:
    """Learn beta on problems drawn from the posterior, starting from a quarter of the beta of Eq. 5."""
    policy = SoftUCBPolicy(
        posterior.dim,
        beta_init=settings.radius(posterior) / 4,
        delta=settings.delta,
        ridge_alpha=settings.ridge_alpha if settings.prior is None else 1.0,
        prior=settings.prior,
        coldness="smooth",
    )
    betas = learn_beta(
        settings.draw(posterior),
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


def _evaluate(data: LogData, summary: LogSummary, earlier: LogSummary, settings: _Settings) -> tuple[LogValue, float]:
    """Learn a policy from the earlier decisions and evaluate it on the later ones; also return its beta."""
    past = settings.fit_posterior(earlier)
    policy, betas = _learn_policy(past, settings, stage="Learning beta, earlier decisions")
    warm_start(policy, earlier, num_bandits=int(summary.names.max()) + 1)
    return data.value(policy, past, summary), betas[-1]


def _simulate(
    posterior: ProblemPosterior, policy: SoftUCBPolicy, settings: _Settings
) -> tuple[dict[str, Tensor], dict[float, tuple[Tensor, Tensor]], float]:
    """Return the regret of the learned policy and its baselines, regret as a function of beta, and LinUCB's tuned beta."""
    learned, bound = float(policy.beta.detach()), settings.radius(posterior)
    grid = [max(learned, bound / 64) * factor for factor in _GRID]
    soft_ucb = {beta: policy.with_beta(beta) for beta in grid}
    lin_ucb = {beta: LinUCB(policy.dim, beta=beta, **start_of(policy)) for beta in grid}
    total = 3 + 3 * len(grid) + 2

    def play(policies: Mapping[Key, BanditPolicy], *, seed: int) -> dict[Key, Tensor]:
        return simulated_regret(
            settings.draw(posterior),
            policies,
            horizon=settings.horizon,
            problems=settings.problems,
            seed=seed,
            compile=settings.compile,
            progress=lambda: settings.progress("Playing drawn problems", total),
        )

    tuning = play(lin_ucb, seed=mixed_seed(settings.seed, _TUNING))
    tuned_beta = min(grid, key=lambda beta: float(tuning[beta].mean()))
    named = {LEARNED: policy, GREEDY: greedy_of(policy), TUNED: lin_ucb[tuned_beta], **baselines(policy, radius=bound)}
    regret, soft_regret, lin_regret = (play(each, seed=settings.seed) for each in (named, soft_ucb, lin_ucb))
    curve = {beta: (soft_regret[beta], lin_regret[beta]) for beta in grid}
    curve[learned] = regret[LEARNED], regret["LinUCB, same beta"]
    return regret, dict(sorted(curve.items())), tuned_beta


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
