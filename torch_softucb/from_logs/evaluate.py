"""What a learned policy would have earned on a log's later decisions, having learned from its earlier ones."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.from_logs._checks import check_dense_ids, check_offered_known, check_part
from torch_softucb.from_logs.candidates import Offered
from torch_softucb.from_logs.posterior import ProblemPosterior
from torch_softucb.from_logs.simulate import mean_interval
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.policies._checks import check_policy
from torch_softucb.recommend import LoggedDecisions

_BLOCK = 1 << 22  # numbers of features at once
_ROWS = 1 << 15  # observations at once


def split_log(log: LoggedDecisions, *, share: float = 0.5) -> tuple[LoggedDecisions, LoggedDecisions]:
    """The decisions that have a reward, the earlier and the later.

    In time, not at random: a policy that learns chooses by the rewards before, so that later decisions know of earlier
    noise, while an estimate from the past is one for the future whatever the logging policy did.
    """
    check_number("split_log", "share", share, low=0.0, high=1.0, open_low=True)
    log = log.rewarded
    cut = int(share * len(log.reward))
    check_part("split_log", cut, len(log.reward))
    earlier, later = (LoggedDecisions(*(c[rows] for c in log)) for rows in (slice(0, cut), slice(cut, None)))
    return earlier, later


@torch.no_grad()
def warm_start(policy: SoftUCBPolicy, log: LoggedDecisions, *, num_bandits: int | None = None) -> None:
    """Forget everything, then take in what a log shows.

    A log of several bandits has their ids, which are rows of the policy's batch: ``num_bandits``, or as many as it takes.
    """
    log = log.rewarded
    several = bool((log.bandit >= 0).any())
    count = int(log.bandit.max()) + 1 if num_bandits is None else num_bandits
    if several:
        check_dense_ids("warm_start", count, len(torch.unique(log.bandit)))
    policy.reset(batch_shape=(count,) if several else ())
    x, reward = log.x.to(policy.dtype), log.reward.to(policy.dtype)
    for rows in (slice(i, i + _ROWS) for i in range(0, len(x), _ROWS)):
        policy.update(x[rows], reward[rows], bandit=log.bandit[rows] if several else None)


@torch.no_grad()
def log_probs(policy: SoftUCBPolicy, log: LoggedDecisions, offered: Offered) -> Tensor:  # (n, K) float64
    """The policy's probabilities, with the statistics that it has, for every decision of a log."""
    bandit = log.bandit if policy.batch_shape else None
    size = max(1, _BLOCK // (offered.rows.shape[1] * policy.dim))
    parts = []
    for start in range(0, len(log.arm), size):
        rows = slice(start, start + size)
        arms, mask = offered.sets(rows)
        decision = policy(arms.to(policy.dtype), mask=mask, bandit=None if bandit is None else bandit[rows])
        parts.append(decision.probs.double())
    probs = torch.cat(parts)
    return probs / probs.sum(-1, keepdim=True)


class LogValue(NamedTuple):
    """Mean rewards with their intervals, of the same decisions."""

    logged: F.Evaluation  # what was earned
    policy: F.Evaluation  # what the policy would have earned, doubly robust
    gain: F.Evaluation  # the difference of the two, decision by decision
    largest_weight: float  # of a decision; the intervals are to be trusted when it is far below their number


def value_on_log(
    policy: SoftUCBPolicy,  # has learned from decisions that are not in `log`
    log: LoggedDecisions,
    *,
    offered: Offered,
    posterior: ProblemPosterior,  # from decisions that are not in `log`, either: the reward model of DR
    confidence: float = 0.95,
) -> LogValue:
    """Off-policy evaluation on held-out decisions. Of slates, only the first items, whose propensity is a decision's.

    The policy's statistics stay as they are: it does not learn along the way.
    """
    where = "value_on_log"
    check_policy(where, policy, SoftUCBPolicy)
    check_offered_known(where, offered.known)
    single = log.position == 0
    log = LoggedDecisions(*(column[single] for column in log))
    offered = offered._replace(rows=offered.rows[single], arm=offered.arm[single])
    probs = log_probs(policy, log, offered)
    reward_hat = _modelled(log, offered, posterior)
    columns = log.reward, offered.arm, log.propensity, probs, reward_hat
    shown = offered.arm.unsqueeze(-1)
    weight = probs.gather(1, shown).squeeze(-1) / log.propensity
    terms = (probs * reward_hat).sum(-1) + weight * (log.reward - reward_hat.gather(1, shown).squeeze(-1))
    return LogValue(
        mean_interval(log.reward, confidence=confidence),
        F.doubly_robust(*columns, confidence=confidence),
        mean_interval(terms - log.reward, confidence=confidence),
        float(weight.max()),
    )


def _modelled(log: LoggedDecisions, offered: Offered, posterior: ProblemPosterior) -> Tensor:  # (n, K)
    """x . theta of every candidate; a bandit that the posterior has not met has the mean theta of the others."""
    mean = posterior.theta.mean  # (U, d)
    theta = posterior.theta_of(log.bandit)
    if offered.fixed and len(mean) == 1:
        arms, mask = offered.sets(slice(0, 1))
        return (mean @ arms[0].mT * mask).expand(len(log.arm), -1)
    parts = []
    size = max(1, _BLOCK // (offered.rows.shape[1] * mean.shape[1]))
    for start in range(0, len(log.arm), size):
        arms, mask = offered.sets(slice(start, start + size))
        parts.append((arms @ theta[start : start + size].unsqueeze(-1)).squeeze(-1) * mask)
    return torch.cat(parts)
