"""Off-policy evaluation: the reward that a policy learned from earlier decisions would have earned on later ones."""

from collections.abc import Iterable
from typing import NamedTuple, Self, TypedDict

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_finite, check_number, check_shape
from torch_softucb.from_logs._checks import check_candidates_known, check_dense_ids, check_split
from torch_softucb.from_logs.behaviour import estimate_propensities
from torch_softucb.from_logs.candidates import CandidateSets, row_blocks
from torch_softucb.from_logs.posterior import ProblemPosterior
from torch_softucb.from_logs.summary import LogSummary, summary_in_memory
from torch_softucb.functional._checks import check_log_columns
from torch_softucb.functional.off_policy import _doubly_robust_terms, _evaluation
from torch_softucb.policies import BanditPolicy, LinUCB, SoftUCBPolicy
from torch_softucb.policies._checks import check_policy
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.policies.rows import observe_many, pack
from torch_softucb.recommend import LoggedDecisions


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
    return select(log, slice(0, cut)), select(log, slice(cut, None))


def select(log: LoggedDecisions, rows: Tensor | slice) -> LoggedDecisions:
    """Return some decisions of a log."""
    return LoggedDecisions._make(column[rows] for column in log)


@torch.no_grad()
def warm_start(policy: SoftUCBPolicy, log: LoggedDecisions | LogSummary, *, num_bandits: int | None = None) -> None:
    """Replace the statistics of a policy by those of all rewards of a log.

    Args:
        policy: policy whose statistics are replaced.
        log: decisions, or the summary of a log; its bandit ids, if any, are rows of the policy's batch.
        num_bandits: size of that batch; by default the largest id + 1.
    """
    summary = log if isinstance(log, LogSummary) else summary_in_memory(log)
    sums, names = summary.sums, summary.names
    several = bool((names >= 0).any())
    count = int(names.max()) + 1 if num_bandits is None else num_bandits
    if several:
        check_dense_ids("warm_start", count, len(names))
    policy.reset(batch_shape=(count,) if several else ())
    fresh, rows = policy.state, names if several else torch.zeros_like(names)

    def spread(values: Tensor) -> Tensor:  # (U, ...) -> (*B, ...)
        whole = values.new_zeros(count if several else 1, *values.shape[1:]).index_copy_(0, rows, values)
        return whole if several else whole[0]

    gram, moment = sums.gram, sums.moment
    if policy.prior is not None:  # sums of whitened features and centred rewards
        prior = policy.prior
        moment = prior.whiten(moment - prior.offset * sums.sum_x - gram @ prior.mean)
        gram = prior.whiten(prior.whiten(gram).mT)
    dV, db, dn = (spread(value).to(policy.device) for value in (gram, moment, sums.num_observations))
    policy.statistics = pack(observe_many(fresh, dV, db, dn, fresh.gamma))


@torch.no_grad()
def target_probs(policy: BanditPolicy, log: LoggedDecisions, candidates: CandidateSets) -> Tensor:  # (n, K) float64
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

    The differences are estimated decision by decision.

    Attributes:
        logged: reward that was earned.
        policy: reward that the policy would have earned, estimated by the doubly robust method.
        greedy: the same for the greedy policy with the statistics of the policy.
        gain: ``policy`` minus ``logged``.
        model_gain: ``greedy`` minus ``logged``: what the learned model adds.
        exploration_gain: ``policy`` minus ``greedy``: what exploration costs on these decisions. What it earns later, by
            what it learns, does not show, because statistics are fixed; simulated regret has both.
        largest_weight: largest importance weight of a decision. The intervals are reliable if it is far below the number
            of decisions.
        estimated: description of the model that propensities were estimated with; None if they were logged. The intervals
            do not include the error of that model.
    """

    logged: F.Evaluation
    policy: F.Evaluation
    greedy: F.Evaluation
    gain: F.Evaluation
    model_gain: F.Evaluation
    exploration_gain: F.Evaluation
    largest_weight: float
    estimated: str | None

    @classmethod
    def of(cls, found: Iterable[F.Evaluation], *, largest_weight: float, estimated: str | None = None) -> Self:
        """Return the result with six evaluations in the order of the fields."""
        logged, policy, greedy, gain, model_gain, exploration_gain = found
        return cls(logged, policy, greedy, gain, model_gain, exploration_gain, largest_weight, estimated)


class PolicyStart(TypedDict, total=False):
    """The keyword arguments of a policy that set where its bandits start."""

    prior: GaussianPrior
    ridge_alpha: float


def start_of(policy: BanditPolicy) -> PolicyStart:
    """Return the prior of a policy, or its ridge weight, for another policy that starts alike."""
    return {"ridge_alpha": policy.ridge_alpha} if policy.prior is None else {"prior": policy.prior}


def greedy_of(policy: BanditPolicy) -> LinUCB:
    """Return the greedy policy with the statistics of a policy."""
    greedy = LinUCB(policy.dim, beta=0.0, **start_of(policy), dtype=policy.dtype, device=policy.device)
    greedy.statistics = policy.statistics.clone()
    return greedy


class LogTerms(NamedTuple):
    """Numbers of each decision, whose means are those of :class:`LogValue`, in its order.

    Attributes:
        values: reward, terms of policy and greedy policy, and the three differences, of shape ``(6, n)``.
        weights: importance weights of the policy and of the greedy policy, of shape ``(2, n)``.
    """

    values: Tensor  # (6, n)
    weights: Tensor  # (2, n)


def log_terms(
    policy: SoftUCBPolicy,
    log: LoggedDecisions,
    propensity: Tensor,  # (n,)
    candidates: CandidateSets,
    posterior: ProblemPosterior,
) -> LogTerms:
    """Return the doubly robust terms of held-out decisions, for a policy and for the greedy one."""
    predicted = predicted_rewards(log, candidates, posterior)
    found = [
        _doubly_robust_terms(log.reward, candidates.arm, propensity, target_probs(each, log, candidates), predicted)
        for each in (policy, greedy_of(policy))
    ]
    (own, own_weights), (greedy, greedy_weights) = found
    values = (log.reward, own, greedy, own - log.reward, greedy - log.reward, own - greedy)
    return LogTerms(torch.stack(values), torch.stack((own_weights, greedy_weights)))


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
    the propensity of the others depends on the items before them. A log without propensities gets those of a model that is
    fitted to its own choices (:func:`estimate_propensities`), which the result states.

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
    log, candidates = select(log, first_items), candidates.select(first_items)
    model = None if log.has_propensities else estimate_propensities(candidates)
    propensity = log.propensity if model is None else model.propensity
    values, weights = log_terms(policy, log, propensity, candidates, posterior)
    check_log_columns(where, log.reward, candidates.arm, propensity, candidates.rows.shape)
    ones = torch.ones_like(weights[0])
    of_terms = (ones, weights[0], weights[1], ones, ones, ones)
    found = [_evaluation(each, weight, confidence) for each, weight in zip(values, of_terms, strict=True)]
    return LogValue.of(found, largest_weight=float(weights[0].max()), estimated=None if model is None else model.source)


def predicted_rewards(log: LoggedDecisions, candidates: CandidateSets, posterior: ProblemPosterior) -> Tensor:  # (n, K)
    """Return the estimated mean reward of every candidate, 0 where masked."""
    mean = posterior.theta.mean  # (U, d)
    theta = posterior.theta_of(log.bandit)
    if candidates.fixed and len(mean) == 1:
        arms, mask = candidates.sets(slice(0, 1))
        return ((posterior.offset + mean @ arms[0].mT) * mask).expand(len(log.arm), -1)
    parts = []
    for rows in row_blocks(len(log.arm), candidates.rows.shape[1] * mean.shape[1]):
        arms, mask = candidates.sets(rows)
        parts.append((posterior.offset + (arms @ theta[rows].unsqueeze(-1)).squeeze(-1)) * mask)
    return torch.cat(parts)
