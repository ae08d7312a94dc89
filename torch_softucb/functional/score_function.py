"""Derivatives of one round's probabilities, gamma included, and the score-function gradient of a trajectory's reward.

Let J = E[sum_t rbar_t], where rbar_t = sum_i p_ti mu_i is the expected reward of round t given its history. Then
dJ/dbeta = E[sum_t (d rbar_t / dbeta + d log p_t(a_t) / dbeta * sum_{s > t} rbar_s)]. The first term is the effect of beta
on the present round. The second credits the arm that was drawn with the rewards of all later rounds.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import (
    check_arm_axis,
    check_arm_ids,
    check_batch,
    check_delta,
    check_mask,
    check_number,
    check_same_shape,
    check_shape,
)
from torch_softucb.functional.softmax import SMALLEST, _soft_count, masked, odds_of


class Score(NamedTuple):
    """Terms of one round in the gradient of a trajectory's reward.

    Attributes:
        reward: ``(*B,)`` expected reward rbar.
        present: ``(*B,)`` derivative of rbar in beta.
        score: ``(*B,)`` derivative of log p(arm) in beta.
    """

    reward: Tensor  # (*B,)
    present: Tensor  # (*B,)
    score: Tensor  # (*B,)


def logit_slope(
    mu_hat: Tensor,  # (*B, K)
    width: Tensor,  # (*B, K)
    beta: Tensor,  # () or (*B,)
    index: Tensor,  # (*B, K)
    gamma: Tensor,  # () or (*B,)
    *,
    delta: float | Tensor,
    smoothing: float | None,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B, K)
    """Differentiate the logits gamma S_i in beta, up to a constant per round, which the softmax cancels.

    The derivative exists wherever gamma is differentiable: everywhere for the smooth coldness, between the jumps of |L| for
    :func:`coldness`.

    Args:
        mu_hat: estimated mean reward of each arm.
        width: norm of each arm in the inverse Gram matrix.
        beta: confidence width.
        index: S at this beta, from :func:`soft_ucb_index`.
        gamma: coldness of S.
        delta: as in :func:`coldness`; a tensor if it is learned.
        smoothing: kappa of :func:`smooth_coldness`, or None for :func:`coldness`.
        mask: True = allowed.

    Example:
        >>> mu_hat, width, beta = torch.tensor([1.0, 0.0]), torch.tensor([0.1, 0.2]), torch.tensor(1.0)
        >>> S = torch.tensor([0.2, -0.7])  # gamma = log(9) / 0.2; dS = (0.2, 0.3); dgamma = -gamma
        >>> logit_slope(mu_hat, width, beta, S, torch.tensor(10.9861), delta=0.9, smoothing=None)
        tensor([-1.0986,  9.8875])
    """
    where = "logit_slope"
    _check_index(where, index, delta, smoothing, mask)
    check_same_shape(where, "mu_hat", mu_hat, "index", index)
    check_same_shape(where, "width", width, "index", index)
    check_batch(where, "beta", beta, index.shape[:-1])
    check_batch(where, "gamma", gamma, index.shape[:-1])
    phi = _phi(mu_hat, width, beta, mask)
    return _logit_slope(width, phi, index, gamma, delta=delta, smoothing=smoothing, mask=mask)


def _phi(mu_hat: Tensor, width: Tensor, beta: Tensor, mask: Tensor | None) -> Tensor:  # -> (*B, K)
    """Return the derivative of S in beta, the sum of the widths of the arm and of i_star."""
    i_star = masked(torch.addcmul(mu_hat, beta.unsqueeze(-1), width, value=-1), mask).argmax(-1, keepdim=True)
    return width + width.gather(-1, i_star)  # Eq. 6


def _logit_slope(
    width: Tensor,  # (*B, K)
    phi: Tensor,  # (*B, K) from _phi
    index: Tensor,  # (*B, K)
    gamma: Tensor,  # () or (*B,)
    *,
    delta: float | Tensor,
    smoothing: float | None,
    mask: Tensor | None,
) -> Tensor:  # (*B, K)
    s_max, best = masked(index, mask).max(-1, keepdim=True)
    s_safe = torch.where(s_max > SMALLEST, s_max, torch.ones_like(s_max))  # gamma is constant 0 where max S <= 0
    top_rise = phi.gather(-1, best) / s_safe
    gamma = gamma.unsqueeze(-1)
    gamma_slope = -gamma * top_rise
    if smoothing is not None:
        above = index.clamp(min=0)
        near_low = _soft_count(above, s_safe, smoothing, mask)
        odds = odds_of(delta, index.dtype)
        moved = torch.where(index > 0, phi, torch.zeros_like(phi)) - above * top_rise
        count_rise = -(near_low * moved).sum(-1, keepdim=True) / (smoothing * s_safe)
        gamma_slope = gamma_slope + odds * count_rise / (1 + odds * near_low.sum(-1, keepdim=True)) / s_safe
    gamma_slope = torch.where(s_max > SMALLEST, gamma_slope, torch.zeros_like(gamma_slope))
    return gamma_slope * index + gamma * width


def delta_slope(
    index: Tensor,  # (*B, K)
    *,
    delta: float | Tensor,
    smoothing: float | None,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B, K)
    """Differentiate the logits gamma S_i in logit(delta), which is the log of the odds that gamma contains.

    Args:
        index: index S of every arm.
        delta: as in :func:`coldness`; a tensor if it is learned.
        smoothing: kappa of :func:`smooth_coldness`, or None for :func:`coldness`.
        mask: True = allowed.

    Example:
        >>> delta_slope(torch.tensor([0.2, -0.7]), delta=0.9, smoothing=None)  # S / max S
        tensor([ 1.0000, -3.5000])
    """
    _check_index("delta_slope", index, delta, smoothing, mask)
    return _delta_slope(index, delta=delta, smoothing=smoothing, mask=mask)


def _delta_slope(index: Tensor, *, delta: float | Tensor, smoothing: float | None, mask: Tensor | None) -> Tensor:
    s_max = masked(index, mask).amax(-1, keepdim=True)
    s_safe = torch.where(s_max > SMALLEST, s_max, torch.ones_like(s_max))
    if smoothing is None:
        low = (index < 0).to(index.dtype)
        low = low if mask is None else low.masked_fill(~mask, 0.0)
    else:
        low = _soft_count(index.clamp(min=0), s_safe, smoothing, mask)
    scaled = low.sum(-1, keepdim=True) * odds_of(delta, index.dtype)
    share = (scaled > 0).to(index.dtype) if smoothing is None else scaled / (1 + scaled)
    return index * torch.where(s_max > SMALLEST, share / s_safe, torch.zeros_like(share))


def _check_index(where: str, index: Tensor, delta: float | Tensor, smoothing: float | None, mask: Tensor | None) -> None:
    check_arm_axis(where, "index", index)
    check_mask(where, mask, index.shape)
    if not isinstance(delta, Tensor):
        check_delta(where, delta)
    if smoothing is not None:
        check_number(where, "smoothing", smoothing, low=0.0, open_low=True)


def trajectory_score(
    probs: Tensor,  # (*B, K)
    slope: Tensor,  # (*B, K)
    means: Tensor,  # (*B, K)
    arm: Tensor,  # (*B,) int64
) -> Score:
    """Terms of one round in the gradient of a trajectory's reward.

    Args:
        probs: the policy's probabilities, 0 at masked arms.
        slope: derivative of the logits, from :func:`logit_slope` or :func:`delta_slope`.
        means: true mean reward of each arm.
        arm: the arm that was drawn.

    Example:
        >>> probs, slope, means = torch.tensor([0.5, 0.5]), torch.tensor([2.0, 0.0]), torch.tensor([1.0, 0.0])
        >>> trajectory_score(probs, slope, means, torch.tensor(1))
        Score(reward=tensor(0.5000), present=tensor(0.5000), score=tensor(-1.))
    """
    where = "trajectory_score"
    check_arm_axis(where, "probs", probs)
    check_same_shape(where, "slope", slope, "probs", probs)
    check_same_shape(where, "means", means, "probs", probs)
    check_arm_ids(where, arm, probs.shape[:-1], probs.shape[-1])
    return _trajectory_score(probs, slope, means, arm)


def _trajectory_score(probs: Tensor, slope: Tensor, means: Tensor, arm: Tensor) -> Score:
    centred = slope - (probs * slope).sum(-1, keepdim=True)
    reward = (probs * means).sum(-1)
    present = (probs * means * centred).sum(-1)
    return Score(reward, present, centred.gather(-1, arm.unsqueeze(-1)).squeeze(-1))


def reward_to_go(reward: Tensor) -> Tensor:  # (T, *B) -> (T, *B)
    """Sum of the rewards of all later rounds, for each round.

    Args:
        reward: reward of each round.

    Example:
        >>> reward_to_go(torch.tensor([1.0, 2.0, 4.0]))
        tensor([6., 4., 0.])
    """
    check_shape("reward_to_go", "reward", reward.shape, reward.dim() >= 1, "(T, *B)")
    return reward.flip(0).cumsum(0).flip(0) - reward
