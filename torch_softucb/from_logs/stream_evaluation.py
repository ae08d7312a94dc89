"""Off-policy evaluation in one pass over a Parquet dataset that may be larger than memory."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.from_logs._checks import check_candidates_known
from torch_softucb.from_logs.candidates import ItemTable, sets_from_items
from torch_softucb.from_logs.evaluate import LogValue, log_terms, select
from torch_softucb.from_logs.posterior import ProblemPosterior
from torch_softucb.from_logs.stream import LogPart, Source, log_parts, map_parts, part_batches
from torch_softucb.functional.off_policy import _evaluation_of_moments
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.policies._checks import check_policy

_WHERE = "evaluate_stream"


class _Moments(NamedTuple):
    """Running moments of the values of :class:`LogTerms` and of its weights."""

    number: Tensor  # ()
    mean: Tensor  # (6,)
    deviations: Tensor  # (6,) sum of the squared deviations from the mean
    weights: Tensor  # (2, 2) sum of the weights and sum of their squares
    largest: Tensor  # (), largest weight of the policy


def evaluate_stream(
    policy: SoftUCBPolicy,
    source: Source,
    *,
    posterior: ProblemPosterior,
    items: ItemTable | None = None,
    share: tuple[float, float] = (0.0, 1.0),
    per_bandit: bool = True,
    engine: str = "local",
    confidence: float = 0.95,
) -> LogValue:
    """Estimate the reward of a policy on the decisions of a Parquet dataset, as ``evaluate_on_log`` does in memory.

    Args:
        policy: policy with fixed statistics, from decisions outside ``share``.
        source: a folder of Parquet files, read in the order of their names; or one or several files.
        posterior: fitted to decisions outside ``share``; the reward model of the doubly robust estimate.
        items: the ``items`` of the summary of the whole dataset; not needed if ``features`` were logged.
        share: first and last row to use, as shares of all rows: ``(0.5, 1)`` is the second half.
        per_bandit: keep the bandit ids; False takes all decisions as those of one bandit, as in ``summarise_log``.
        engine: ``local``, or ``ray`` to work on row groups in parallel.
        confidence: probability that an interval covers the true value.

    Raises:
        ValueError: if the log has no propensities or no candidate sets, or a value is impossible.
    """
    check_policy(_WHERE, policy, SoftUCBPolicy)
    check_number(_WHERE, "confidence", confidence, low=0.0, high=1.0, open_low=True)
    nothing = posterior.offered.select(slice(0, 0))  # the sample is not sent to other processes
    model = posterior._replace(owner=posterior.owner[:0], position=posterior.position[:0], offered=nothing)
    function = partial(_evaluate_part, policy=policy, posterior=model, items=items, per_bandit=per_bandit)
    total: _Moments | None = None
    for found in map_parts(_WHERE, function, log_parts(_WHERE, source, share=share), engine=engine):
        total = found if total is None else _merge(total, found)
    assert total is not None  # log_parts returns at least one part
    if total.number < 2:
        raise ValueError(f"{_WHERE}: at least two decisions with a reward are needed, got {int(total.number)}")
    ones = total.number.expand(2)
    of_terms = (ones, *total.weights, ones, ones, ones)
    evaluations = [
        _evaluation_of_moments(total.number, mean, deviations, weights, confidence)
        for mean, deviations, weights in zip(total.mean, total.deviations, of_terms, strict=True)
    ]
    return LogValue.of(evaluations, largest_weight=float(total.largest))


@torch.no_grad()
def _evaluate_part(
    part: LogPart, *, policy: SoftUCBPolicy, posterior: ProblemPosterior, items: ItemTable | None, per_bandit: bool
) -> _Moments:
    zeros = torch.zeros(6, dtype=torch.float64)
    total = _Moments(zeros[0], zeros, zeros, zeros[:4].view(2, 2), zeros[0])
    for batch in part_batches(_WHERE, part):
        log = select(batch.log, ~batch.log.reward.isnan() & (batch.log.position == 0))
        if not len(log.arm):
            continue
        if not per_bandit:
            log = log._replace(bandit=torch.full_like(log.bandit, -1))
        if not log.has_propensities:
            raise ValueError(
                f"{_WHERE}: {part.path} has no propensities; evaluate a sample with evaluate_on_log, which estimates them"
            )
        candidates = sets_from_items(log, items)
        check_candidates_known(_WHERE, candidates.known)
        values, weights = log_terms(policy, log, log.propensity, candidates, posterior)
        mean = values.mean(-1)
        deviations = (values - mean.unsqueeze(-1)).square().sum(-1)
        squares = torch.stack((weights.sum(-1), weights.square().sum(-1)), dim=-1)
        number = torch.full_like(mean[0], len(log.arm))
        total = _merge(total, _Moments(number, mean, deviations, squares, weights[0].amax()))
    return total


def _merge(first: _Moments, second: _Moments) -> _Moments:
    """Return the moments of two sets of numbers together (T. F. Chan, G. H. Golub, R. J. LeVeque, 1979)."""
    count = first.number + second.number
    share = second.number / count.clamp(min=1)
    difference = second.mean - first.mean
    deviations = first.deviations + second.deviations + difference.square() * first.number * share
    largest = torch.maximum(first.largest, second.largest)
    return _Moments(count, first.mean + difference * share, deviations, first.weights + second.weights, largest)
