"""From a log to a learned policy and what it is expected to gain, in one call."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.from_logs.evaluate import LogValue, split_log, value_on_log, warm_start
from torch_softucb.from_logs.posterior import ProblemPosterior, fit_posterior, learn_beta, radius
from torch_softucb.from_logs.simulate import at_betas, baselines, logged_regret, simulated_regret
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.recommend import LoggedDecisions

LEARNED = "SoftUCB, learned beta"
_GRID = (1 / 8, 1 / 4, 1 / 2, 2**-0.5, 2**0.5, 2, 4, 8)  # of the learned beta, for regret as a function of beta


class LearnedFromLog(NamedTuple):
    """All that the report tells."""

    policy: SoftUCBPolicy  # learned from the whole log, with its statistics
    posterior: ProblemPosterior  # from the whole log
    decisions: int  # in the log, with a reward or without
    reward_mean: float
    horizon: int
    radius: float  # Eq. 5
    betas: list[float]  # before every step of learning, and the last
    regret: dict[str, Tensor]  # policy -> (B,) over `horizon` rounds, on the same drawn problems
    curve: dict[float, tuple[Tensor, Tensor]]  # beta -> SoftUCB's and LinUCB's (B,), likewise
    logged: dict[str, Tensor]  # which decisions -> (draws,) regret a decision; empty where it is not known what was on offer
    earlier_beta: float  # learned from the earlier decisions alone, for `value`
    value: LogValue | None  # on the later decisions; None where it is not known what was on offer


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
    """Fit the posterior, learn beta on problems drawn from it, and say what that is expected to gain.

    Args:
        log: decisions with propensities, of any policy.
        horizon: T, rounds that the policy is to be good over when it begins from nothing.
        share: of the decisions, the earlier ones, from which the evaluated policy learns, beta and statistics; the later
            ones evaluate it. The policy that is returned has learned from all.
        steps: of learning beta, with ``trajectories`` each.
        problems: drawn problems that regrets are measured on; none was learned from.
        num_arms: candidates of a drawn problem when the log does not say what was on offer.
        progress: called with (what is done, how many such steps there are) after every step.
    """
    check_integer("learn_from_log", "horizon", horizon, low=1)
    tell = progress or (lambda stage, total: None)
    kind: dict[str, Any] = {"horizon": horizon, "seed": seed, "compile": compile}

    def learned(posterior: ProblemPosterior, stage: str) -> tuple[SoftUCBPolicy, list[float]]:
        start = radius(posterior, horizon=horizon, ridge_alpha=ridge_alpha) / 4
        policy = SoftUCBPolicy(posterior.dim, beta_init=start, delta=delta, ridge_alpha=ridge_alpha, coldness="smooth")
        betas = learn_beta(
            lambda count, generator: posterior.draw(count, generator=generator),
            policy,
            steps=steps,
            trajectories=trajectories,
            estimator=estimator,
            progress=lambda *_: tell(stage, steps),
            **kind,
        )
        return policy, betas

    whole = fit_posterior(log, num_arms=num_arms)
    policy, betas = learned(whole, "Learning beta")
    value, earlier_beta = None, betas[-1]
    if whole.offered.known:
        earlier, later = split_log(log, share=share)
        past, rows = fit_posterior(earlier, num_arms=num_arms), slice(len(earlier.arm), None)
        evaluated, path = learned(past, "Learning beta, earlier decisions")
        warm_start(evaluated, earlier, num_bandits=int(log.bandit.max()) + 1)
        offered = whole.offered._replace(rows=whole.offered.rows[rows], arm=whole.offered.arm[rows])
        value, earlier_beta = value_on_log(evaluated, later, offered=offered, posterior=past), path[-1]
    bound = radius(whole, horizon=horizon, ridge_alpha=ridge_alpha)
    grid = [max(betas[-1], bound / 64) * factor for factor in _GRID]
    players = {LEARNED: policy, **baselines(policy, radius=bound), **at_betas(policy, grid)}
    found = simulated_regret(
        whole, players, problems=problems, progress=lambda: tell("Playing drawn problems", len(players)), **kind
    )
    logged = {}
    if whole.offered.known:
        logged["all decisions"] = logged_regret(whole, generator=torch.Generator().manual_seed(seed))
        if len(whole.names) == 1:
            logged["its first T decisions"] = logged_regret(
                whole, first=horizon, generator=torch.Generator().manual_seed(seed)
            )
    warm_start(policy, log)
    curve = {beta: (found.pop(f"SoftUCB {beta}"), found.pop(f"LinUCB {beta}")) for beta in grid}
    curve[betas[-1]] = found[LEARNED], found["LinUCB, same beta"]
    return LearnedFromLog(
        policy=policy,
        posterior=whole,
        decisions=len(log.reward),
        reward_mean=float(log.rewarded.reward.mean()),
        horizon=horizon,
        radius=bound,
        betas=betas,
        regret=found,
        curve=dict(sorted(curve.items())),
        logged=logged,
        earlier_beta=earlier_beta,
        value=value,
    )
