"""Off-policy evaluation: the reward that a policy learned from earlier decisions would have earned on later ones."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_finite, check_number, check_shape
from torch_softucb.from_logs._checks import check_candidates_known, check_dense_ids, check_split
from torch_softucb.from_logs.candidates import CandidateSets, row_blocks
from torch_softucb.from_logs.posterior import ProblemPosterior
from torch_softucb.functional.off_policy import _doubly_robust_terms, _evaluation
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.policies._checks import check_policy
from torch_softucb.recommend import LoggedDecisions

_ROWS = 1 << 15  # observations per call to update


def mean_interval(values: Tensor, *, confidence: float = 0.95) -> F.Evaluation:  # (n,)
    """Return the mean of independent numbers with its confidence interval.

    Example:
        >>> mean_interval(torch.tensor([1.0, 2.0, 3.0])).value
        tensor(2.)
    """
    check_shape("mean_interval", "values", values.shape, values.dim() == 1 and len(values) > 1, "(n,), n >= 2")
    check_finite("mean_interval", "values", values)
    return _evaluation(values, torch.ones_like(values), confidence)


def split_log(log: LoggedDecisions, *, share: float = 0.5) -> tuple[LoggedDecisions, LoggedDecisions]:
    """Split the decisions that have a reward into the earlier and the later ones.

    The split is in time, not at random. If the logging policy was learning, its later decisions depend on the noise of
    earlier rewards, and a random split would leak it. An estimate from the past is valid for the future whatever the logging
    policy did.

    Args:
        log: decisions in the order in which they were made.
        share: share of the earlier decisions, in (0, 1).
    """
    check_number("split_log", "share", share, low=0.0, high=1.0, open_low=True)
    log = log.rewarded
    cut = int(share * len(log.reward))
    check_split("split_log", cut, len(log.reward))
    return _select(log, slice(0, cut)), _select(log, slice(cut, None))


def _select(log: LoggedDecisions, rows: Tensor | slice) -> LoggedDecisions:
    return LoggedDecisions._make(column[rows] for column in log)


@torch.no_grad()
def warm_start(policy: SoftUCBPolicy, log: LoggedDecisions, *, num_bandits: int | None = None) -> None:
    """Reset a policy, then update it with all rewards of a log.

    Args:
        policy: policy whose statistics are replaced.
        log: decisions; their bandit ids, if any, are rows of the policy's batch.
        num_bandits: size of that batch; by default the largest id + 1.
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
def target_probs(policy: SoftUCBPolicy, log: LoggedDecisions, candidates: CandidateSets) -> Tensor:  # (n, K) float64
    """Return the probability that the policy, with its current statistics, gives to each candidate of each decision."""
    bandit = log.bandit if policy.batch_shape else None
    parts = []
    for rows in row_blocks(len(log.arm), candidates.rows.shape[1] * policy.dim):
        arms, mask = candidates.sets(rows)
        decision = policy(arms.to(policy.dtype), mask=mask, bandit=None if bandit is None else bandit[rows])
        parts.append(decision.probs.double())
    probs = torch.cat(parts)
    return probs / probs.sum(-1, keepdim=True)


class LogValue(NamedTuple):
    """Mean rewards per decision with confidence intervals, all on the same held-out decisions.

    Attributes:
        logged: reward that was earned.
        policy: reward that the policy would have earned, estimated by the doubly robust method.
        gain: difference between the two, estimated decision by decision.
        largest_weight: largest importance weight of a decision. The intervals are reliable if it is far below the number
            of decisions.
    """

    logged: F.Evaluation
    policy: F.Evaluation
    gain: F.Evaluation
    largest_weight: float


def evaluate_on_log(
    policy: SoftUCBPolicy,
    log: LoggedDecisions,
    *,
    candidates: CandidateSets,
    posterior: ProblemPosterior,
    confidence: float = 0.95,
) -> LogValue:
    """Estimate the reward of a policy on held-out decisions.

    The policy does not learn during the evaluation; its statistics are fixed. Only the first item of a slate counts, because
    the propensity of the others depends on the items before them.

    Args:
        policy: policy that has learned from decisions that are not in ``log``.
        log: held-out decisions, all with a reward.
        candidates: candidate sets of ``log``.
        posterior: fitted to decisions that are not in ``log``; the reward model of the doubly robust estimate.
        confidence: probability that an interval covers the true value.
    """
    where = "evaluate_on_log"
    check_policy(where, policy, SoftUCBPolicy)
    check_candidates_known(where, candidates.known)
    first_items = log.position == 0
    log, candidates = _select(log, first_items), candidates.select(first_items)
    probs = target_probs(policy, log, candidates)
    columns = log.reward, candidates.arm, log.propensity, probs, _predicted_rewards(log, candidates, posterior)
    estimate = F.doubly_robust(*columns, confidence=confidence)
    terms, weights = _doubly_robust_terms(*columns)
    return LogValue(
        logged=mean_interval(log.reward, confidence=confidence),
        policy=estimate,
        gain=mean_interval(terms - log.reward, confidence=confidence),
        largest_weight=float(weights.max()),
    )


def _predicted_rewards(log: LoggedDecisions, candidates: CandidateSets, posterior: ProblemPosterior) -> Tensor:  # (n, K)
    """Return x . theta of every candidate, 0 where masked."""
    mean = posterior.theta.mean  # (U, d)
    theta = posterior.theta_of(log.bandit)
    if candidates.fixed and len(mean) == 1:
        arms, mask = candidates.sets(slice(0, 1))
        return (mean @ arms[0].mT * mask).expand(len(log.arm), -1)
    parts = []
    for rows in row_blocks(len(log.arm), candidates.rows.shape[1] * mean.shape[1]):
        arms, mask = candidates.sets(rows)
        parts.append((arms @ theta[rows].unsqueeze(-1)).squeeze(-1) * mask)
    return torch.cat(parts)
