"""What a policy would have earned, from decisions that another one made and logged.

w = target probability / propensity of the logged action. DM trusts a model of the reward, IPS the propensities, DR both: it
is right when either is (M. Dudik, J. Langford, L. Li: Doubly robust policy evaluation and learning, ICML 2011). SNIPS
divides by the sum of the weights (A. Swaminathan, T. Joachims, NIPS 2015). Switch-DR trusts the model alone where weights
are large (Y.-X. Wang, A. Agarwal, M. Dudik, ICML 2017). All are differentiable in the target policy.
"""

from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_finite, check_integer, check_number
from torch_softucb.functional._checks import check_log, check_log_columns, check_overlap


class Evaluation(NamedTuple):
    """An estimate of the mean reward."""

    value: Tensor  # ()
    std_error: Tensor  # ()
    low: Tensor  # () of the confidence interval
    high: Tensor  # ()
    effective_sample_size: Tensor  # () (sum w)^2 / sum w^2: decisions that the estimate rests on


def _evaluation(terms: Tensor, weights: Tensor, confidence: float) -> Evaluation:  # (n,), (n,)
    check_number("off-policy evaluation", "confidence", confidence, low=0.0, high=1.0, open_low=True)
    value = terms.mean()
    std_error = terms.std() / len(terms) ** 0.5
    half = NormalDist().inv_cdf(0.5 + confidence / 2) * std_error
    size = weights.sum().square() / weights.square().sum().clamp(min=torch.finfo(weights.dtype).tiny)
    return Evaluation(value, std_error, value - half, value + half, size)


def direct_method(
    target_probs: Tensor,  # (n, K)
    reward_hat: Tensor,  # (n, K) a model's estimates
    *,
    confidence: float = 0.95,
) -> Evaluation:
    """DM: the model's mean reward under the target policy. Its interval knows nothing of the model's bias.

    Example:
        >>> direct_method(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])).value
        tensor(0.7500)
    """
    check_log("direct_method", None, None, None, target_probs, reward_hat)
    return _evaluation((target_probs * reward_hat).sum(-1), torch.ones_like(target_probs[:, 0]), confidence)


def inverse_propensity(
    reward: Tensor,  # (n,)
    arm: Tensor,  # (n,)
    propensity: Tensor,  # (n,)
    target_probs: Tensor,  # (n, K)
    *,
    confidence: float = 0.95,
) -> Evaluation:
    """IPS: mean of w r.

    Example:
        >>> arm, propensity = torch.tensor([0, 1]), torch.tensor([0.5, 0.5])
        >>> inverse_propensity(torch.tensor([1.0, 3.0]), arm, propensity, torch.tensor([[1.0, 0.0], [1.0, 0.0]])).value
        tensor(1.)
    """
    check_log("inverse_propensity", reward, arm, propensity, target_probs, None)
    w = _at(target_probs, arm) / propensity
    check_overlap("inverse_propensity", w)
    return _evaluation(w * reward, w, confidence)


def self_normalised(
    reward: Tensor,  # (n,)
    arm: Tensor,  # (n,)
    propensity: Tensor,  # (n,)
    target_probs: Tensor,  # (n, K)
    *,
    confidence: float = 0.95,
) -> Evaluation:
    """SNIPS: sum w r / sum w; its error by the delta method.

    Example:
        >>> arm, propensity = torch.tensor([0, 1, 0]), torch.tensor([0.5, 0.5, 0.5])
        >>> self_normalised(torch.tensor([1.0, 3.0, 2.0]), arm, propensity, torch.tensor([[1.0, 0.0]] * 3)).value
        tensor(1.5000)
    """
    check_log("self_normalised", reward, arm, propensity, target_probs, None)
    w = _at(target_probs, arm) / propensity
    check_overlap("self_normalised", w)
    mean = w.mean()
    value = (w * reward).mean() / mean
    return _evaluation(value + w * (reward - value) / mean, w, confidence)


def doubly_robust(
    reward: Tensor,  # (n,)
    arm: Tensor,  # (n,)
    propensity: Tensor,  # (n,)
    target_probs: Tensor,  # (n, K)
    reward_hat: Tensor,  # (n, K)
    *,
    confidence: float = 0.95,
) -> Evaluation:
    """DR: the direct method, corrected by w times the model's error on what was logged."""
    return switch_doubly_robust(reward, arm, propensity, target_probs, reward_hat, threshold=None, confidence=confidence)


def switch_doubly_robust(
    reward: Tensor,  # (n,)
    arm: Tensor,  # (n,)
    propensity: Tensor,  # (n,)
    target_probs: Tensor,  # (n, K)
    reward_hat: Tensor,  # (n, K)
    *,
    threshold: float | None,
    confidence: float = 0.95,
) -> Evaluation:
    """DR that trusts the model alone where w is above ``threshold``.

    Example:
        >>> arm, propensity = torch.tensor([0, 0]), torch.tensor([0.5, 0.01])
        >>> probs, model = torch.tensor([[1.0, 0.0]] * 2), torch.tensor([[2.0, 0.0]] * 2)
        >>> log = torch.tensor([3.0, 9.0]), arm, propensity, probs, model
        >>> switch_doubly_robust(*log, threshold=10.0).value  # (2 + 2 * (3 - 2) + 2) / 2: the second weight is 100
        tensor(3.)
    """
    where = "doubly_robust" if threshold is None else "switch_doubly_robust"
    check_log(where, reward, arm, propensity, target_probs, reward_hat)
    if threshold is not None:
        check_number(where, "threshold", threshold, low=0.0)
    terms, weights = _doubly_robust_terms(reward, arm, propensity, target_probs, reward_hat, threshold)
    return _evaluation(terms, weights, confidence)


def _doubly_robust_terms(
    reward: Tensor,  # (n,)
    arm: Tensor,  # (n,)
    propensity: Tensor,  # (n,)
    target_probs: Tensor,  # (n, K)
    reward_hat: Tensor,  # (n, K)
    threshold: float | None = None,
) -> tuple[Tensor, Tensor]:  # (n,), (n,)
    """Return the term of each decision, whose mean is the DR estimate, and the weights in use. No checks."""
    w = _at(target_probs, arm) / propensity
    used = w if threshold is None else torch.where(w <= threshold, w, torch.zeros_like(w))
    return (target_probs * reward_hat).sum(-1) + used * (reward - _at(reward_hat, arm)), used


def _at(values: Tensor, arm: Tensor) -> Tensor:  # (n, K), (n,) -> (n,)
    return values.gather(-1, arm.unsqueeze(-1)).squeeze(-1)


def cross_fitted_rewards(
    features: Tensor,  # (n, K, d)
    arm: Tensor,  # (n,)
    reward: Tensor,  # (n,)
    *,
    folds: int = 2,
    ridge_alpha: float = 1.0,
) -> Tensor:  # (n, K)
    """A linear model's reward of every candidate, fitted by ridge regression on the other folds: a row is never estimated
    from its own reward, which would make DR's interval too short.

    Example:
        >>> features = torch.eye(2).expand(4, 2, 2)
        >>> cross_fitted_rewards(features, torch.tensor([0, 0, 1, 1]), torch.tensor([1.0, 1.0, 0.0, 0.0]))[0]
        tensor([0.5000, 0.0000])
    """
    where = "cross_fitted_rewards"
    check_integer(where, "folds", folds, low=2)
    check_log_columns(where, reward, arm, None, features.shape)
    check_finite(where, "features", features)
    n, _, d = features.shape
    reward = reward.to(features.dtype)
    x = features[torch.arange(n, device=arm.device), arm]
    fold = torch.arange(n, device=arm.device) % folds
    eye = ridge_alpha * torch.eye(d, dtype=features.dtype, device=features.device)
    estimates = features.new_empty(features.shape[:2])
    for k in range(folds):
        rest, own = x[fold != k], fold == k
        theta = torch.linalg.solve(rest.mT @ rest + eye, rest.mT @ reward[fold != k])
        estimates[own] = features[own] @ theta
    return estimates
