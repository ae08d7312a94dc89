"""Propensities of a log that has none, from a model of the policy that made its decisions.

With fixed candidate sets the model is the frequency of each item. With changing sets it is the conditional logit
p_i = exp(w . x_i) / sum_j exp(w . x_j) over the candidates' features (D. McFadden: Conditional logit analysis of qualitative
choice behavior, 1974), whose w has a Gaussian prior and is found by Newton's method. Both are wrong where the logging policy
used something else than the item or its features, so results must state that propensities were estimated.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.errors import NumericalError
from torch_softucb.from_logs._checks import check_candidates_known
from torch_softucb.from_logs.candidates import CandidateSets, row_blocks

_STEPS = 50
_HALVINGS = 30


class EstimatedPropensities(NamedTuple):
    """Estimated probabilities of the logged choices.

    Attributes:
        propensity: estimated probability with which each logged item was chosen, of shape ``(n,)``, float64.
        source: description of the model, for the report.
    """

    propensity: Tensor  # (n,)
    source: str


def estimate_propensities(candidates: CandidateSets, *, ridge_alpha: float = 1.0) -> EstimatedPropensities:
    """Estimate the probability of every logged choice from the choices themselves.

    Args:
        candidates: candidate sets as offered, with the item that was chosen. Decisions of one logging policy, so that one
            model fits all of them.
        ridge_alpha: weight of the penalty |w|^2 / 2 of the logit, for features in units of their standard deviation.

    Raises:
        ValueError: if the candidate sets are not those that were offered.

    Example:
        >>> rows, arm = torch.tensor([[0, 1]]).expand(4, -1), torch.tensor([0, 0, 0, 1])
        >>> sets = CandidateSets(torch.eye(2).double(), rows, arm, known=True, source="", unseen=0)
        >>> estimate_propensities(sets).propensity
        tensor([0.7500, 0.7500, 0.7500, 0.2500], dtype=torch.float64)
    """
    where = "estimate_propensities"
    check_candidates_known(where, candidates.known)
    check_number(where, "ridge_alpha", ridge_alpha, low=0.0, open_low=True)
    if candidates.fixed:
        frequency = torch.bincount(candidates.arm).double() / len(candidates.arm)
        return EstimatedPropensities(frequency[candidates.arm], "the frequency of each item")
    return EstimatedPropensities(_logit_probs(candidates, ridge_alpha), "a multinomial logit over the candidates' features")


def _logit_probs(candidates: CandidateSets, ridge_alpha: float) -> Tensor:  # (n,)
    """Return the probability of every choice under the conditional logit with the largest penalised likelihood."""
    spread = candidates.items.std(0, correction=0)
    scaled = candidates._replace(items=candidates.items / torch.where(spread > 0, spread, torch.ones_like(spread)))
    w = torch.zeros_like(spread)
    value, slope, curvature = _penalised_likelihood(scaled, w, ridge_alpha)
    for _ in range(_STEPS):
        step = torch.linalg.solve(curvature, slope)
        decrement = float(slope @ step)
        if decrement < 1e-12 * (1 + abs(value)):  # Newton's method doubles the digits: the last step is exact to rounding
            return _choice_probs(scaled, w + step)
        for halving in range(_HALVINGS):
            trial = w + step / 2**halving
            result = _penalised_likelihood(scaled, trial, ridge_alpha)
            if result[0] > value:
                break
        else:
            return _choice_probs(scaled, w)  # no step improves the likelihood: at its maximum, to rounding
        w, (value, slope, curvature) = trial, result
    raise NumericalError("estimate_propensities: the logit has not converged; use features of similar sizes")


def _penalised_likelihood(
    candidates: CandidateSets,
    w: Tensor,  # (d,)
    ridge_alpha: float,
) -> tuple[float, Tensor, Tensor]:  # (), (d,), (d, d)
    """Return the penalised log-likelihood, its gradient and its negated Hessian."""
    value = -0.5 * ridge_alpha * float(w @ w)
    slope, curvature = -ridge_alpha * w, ridge_alpha * torch.eye(len(w), dtype=w.dtype, device=w.device)
    for rows in row_blocks(len(candidates.arm), candidates.rows.shape[1] * len(w)):
        x, log_probs = _log_probs(candidates, w, rows)  # (m, K, d), (m, K)
        chosen = candidates.arm[rows].unsqueeze(-1)
        value += float(log_probs.gather(-1, chosen).sum())
        probs = log_probs.exp()
        mean = (probs.unsqueeze(-2) @ x).squeeze(-2)  # (m, d)
        slope = slope + (x.gather(1, chosen.unsqueeze(-1).expand(-1, -1, len(w))).squeeze(1) - mean).sum(0)
        flat = x.flatten(0, 1)
        curvature = curvature + flat.mT @ (flat * probs.flatten().unsqueeze(-1)) - mean.mT @ mean
    return value, slope, curvature


def _log_probs(candidates: CandidateSets, w: Tensor, rows: slice) -> tuple[Tensor, Tensor]:  # (m, K, d), (m, K)
    x, mask = candidates.sets(rows)
    return x, torch.log_softmax((x @ w).masked_fill(~mask, -torch.inf), dim=-1)


def _choice_probs(candidates: CandidateSets, w: Tensor) -> Tensor:  # (n,)
    parts = [
        _log_probs(candidates, w, rows)[1].gather(-1, candidates.arm[rows].unsqueeze(-1)).squeeze(-1).exp()
        for rows in row_blocks(len(candidates.arm), candidates.rows.shape[1] * len(w))
    ]
    return torch.cat(parts)
