"""Off-policy evaluation: the mean reward of a target policy, from decisions that another policy made and logged.

The weight of a decision is w = target probability / propensity of the logged action. The direct method (DM) relies on a
model of the reward, inverse propensity scoring (IPS) on the propensities. The doubly robust estimator (DR) is right when
either is (M. Dudik, J. Langford, L. Li: Doubly robust policy evaluation and learning, ICML 2011). SNIPS divides by the sum
of the weights (A. Swaminathan, T. Joachims, NIPS 2015). Switch-DR relies on the model alone where weights are large
(Y.-X. Wang, A. Agarwal, M. Dudik, ICML 2017). All are differentiable in the target policy.
"""

from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_finite, check_integer, check_number, check_shape
from torch_softucb.functional._checks import check_log, check_log_columns, check_overlap


class Evaluation(NamedTuple):
    """An estimate of a policy's mean reward.

    Attributes:
        value: ``()`` the estimate.
        std_error: ``()`` its standard error.
        low: ``()`` lower end of the confidence interval.
        high: ``()`` upper end of the confidence interval.
        effective_sample_size: ``()`` (sum w)^2 / sum w^2, the number of decisions that the estimate effectively uses.
    """

    value: Tensor  # ()
    std_error: Tensor  # ()
    low: Tensor  # ()
    high: Tensor  # ()
    effective_sample_size: Tensor  # ()


def direct_method(
    target_probs: Tensor,  # (n, K)
    reward_hat: Tensor,  # (n, K)
    *,
    confidence: float = 0.95,
) -> Evaluation:
    """DM: the model's mean reward under the target policy. The interval does not account for the model's bias.

    Args:
        target_probs: probabilities of the target policy; every row sums to 1.
        reward_hat: reward of every candidate as predicted by a model.
        confidence: probability that the interval covers the true value, in (0, 1).

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
    """IPS: the mean of w r.

    Args:
        reward: logged rewards.
        arm: logged actions.
        propensity: probability with which each logged action was chosen, in (0, 1].
        target_probs: probabilities of the target policy; every row sums to 1.
        confidence: probability that the interval covers the true value, in (0, 1).

    Example:
        >>> arm, propensity = torch.tensor([0, 1]), torch.tensor([0.5, 0.5])
        >>> inverse_propensity(torch.tensor([1.0, 3.0]), arm, propensity, torch.tensor([[1.0, 0.0], [1.0, 0.0]])).value
        tensor(1.)
    """
    w = _checked_weights("inverse_propensity", reward, arm, propensity, target_probs)
    return _evaluation(w * reward, w, confidence)


def self_normalised(
    reward: Tensor,  # (n,)
    arm: Tensor,  # (n,)
    propensity: Tensor,  # (n,)
    target_probs: Tensor,  # (n, K)
    *,
    confidence: float = 0.95,
) -> Evaluation:
    """SNIPS: sum w r / sum w, with a standard error by the delta method. The arguments are those of IPS.

    Example:
        >>> arm, propensity = torch.tensor([0, 1, 0]), torch.tensor([0.5, 0.5, 0.5])
        >>> self_normalised(torch.tensor([1.0, 3.0, 2.0]), arm, propensity, torch.tensor([[1.0, 0.0]] * 3)).value
        tensor(1.5000)
    """
    w = _checked_weights("self_normalised", reward, arm, propensity, target_probs)
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
    """DR: the direct method, corrected by w times the model's error on the logged action.

    The arguments are those of :func:`inverse_propensity` and :func:`direct_method`.

    Example:
        >>> arm, propensity = torch.tensor([0, 0]), torch.tensor([0.5, 0.5])
        >>> probs, model = torch.tensor([[1.0, 0.0]] * 2), torch.tensor([[2.0, 0.0]] * 2)
        >>> doubly_robust(torch.tensor([3.0, 1.0]), arm, propensity, probs, model).value  # 2 + 2 * mean(1, -1)
        tensor(2.)
    """
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
    """Switch-DR: :func:`doubly_robust`, without the correction where w is above ``threshold``.

    Args:
        reward: logged rewards.
        arm: logged actions.
        propensity: probability with which each logged action was chosen, in (0, 1].
        target_probs: probabilities of the target policy; every row sums to 1.
        reward_hat: reward of every candidate as predicted by a model.
        threshold: largest weight that is used, >= 0; None uses all.
        confidence: probability that the interval covers the true value, in (0, 1).

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
    """Return each decision's term, whose mean is the DR estimate, and the weights used. Arguments are not checked."""
    w = _at(target_probs, arm) / propensity
    used = w if threshold is None else torch.where(w <= threshold, w, torch.zeros_like(w))
    return (target_probs * reward_hat).sum(-1) + used * (reward - _at(reward_hat, arm)), used


def cross_fitted_rewards(
    features: Tensor,  # (n, K, d)
    arm: Tensor,  # (n,)
    reward: Tensor,  # (n,)
    *,
    folds: int = 2,
    ridge_alpha: float = 1.0,
) -> Tensor:  # (n, K)
    """Predict the reward of every candidate by ridge regression, with each fold predicted from the other folds.

    No row is predicted from its own reward, which would make the confidence interval of DR too narrow.

    Args:
        features: features of every candidate.
        arm: logged actions.
        reward: logged rewards.
        folds: number of folds, at least 2.
        ridge_alpha: ridge weight.

    Example:
        >>> features = torch.eye(2).expand(4, 2, 2)
        >>> cross_fitted_rewards(features, torch.tensor([0, 0, 1, 1]), torch.tensor([1.0, 1.0, 0.0, 0.0]))[0]
        tensor([0.5000, 0.0000])
    """
    where = "cross_fitted_rewards"
    check_integer(where, "folds", folds, low=2)
    check_shape(where, "features", features.shape, features.dim() == 3, "(n, K, d)")
    check_log_columns(where, reward, arm, None, features.shape)
    check_finite(where, "features", features)
    n, _, d = features.shape
    reward = reward.to(features.dtype)
    x = features[torch.arange(n, device=arm.device), arm]
    fold = torch.arange(n, device=arm.device) % folds
    ridge = ridge_alpha * torch.eye(d, dtype=features.dtype, device=features.device)
    estimates = features.new_empty(features.shape[:2])
    for k in range(folds):
        rest, own = x[fold != k], fold == k
        theta = torch.linalg.solve(rest.mT @ rest + ridge, rest.mT @ reward[fold != k])
        estimates[own] = features[own] @ theta
    return estimates


def _evaluation(terms: Tensor, weights: Tensor, confidence: float) -> Evaluation:  # (n,), (n,)
    """Mean of the terms with a normal confidence interval."""
    check_number("off-policy evaluation", "confidence", confidence, low=0.0, high=1.0, open_low=True)
    of_weights = torch.stack((weights.sum(), weights.square().sum()))
    deviations = terms.var() * (len(terms) - 1)
    return _evaluation_of_moments(terms.new_tensor(len(terms)), terms.mean(), deviations, of_weights, confidence)


def _evaluation_of_moments(
    count: Tensor,  # ()
    mean: Tensor,  # ()
    deviations: Tensor,  # (), sum of the squared deviations from the mean
    weights: Tensor,  # (2,), sum of the weights and sum of their squares
    confidence: float,
) -> Evaluation:
    """Return the evaluation from the moments of n terms. Arguments are not checked."""
    std_error = (deviations / (count - 1) / count).sqrt()
    half = NormalDist().inv_cdf(0.5 + confidence / 2) * std_error
    size = weights[0].square() / weights[1].clamp(min=torch.finfo(weights.dtype).tiny)
    return Evaluation(mean, std_error, mean - half, mean + half, size)


def _checked_weights(where: str, reward: Tensor, arm: Tensor, propensity: Tensor, target_probs: Tensor) -> Tensor:  # (n,)
    check_log(where, reward, arm, propensity, target_probs, None)
    w = _at(target_probs, arm) / propensity
    check_overlap(where, w)
    return w


def _at(values: Tensor, arm: Tensor) -> Tensor:  # (n, K), (n,) -> (n,)
    return values.gather(-1, arm.unsqueeze(-1)).squeeze(-1)
