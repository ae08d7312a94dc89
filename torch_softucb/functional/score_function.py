"""How beta moves the probabilities, gamma included, and what a whole trajectory's reward says about it.

With J = E[sum_t rbar_t], rbar_t = sum_i p_ti mu_i the expected reward of round t given its history,
dJ/dbeta = E[sum_t (d rbar_t / dbeta + d log p_t(a_t) / dbeta * sum_{s > t} rbar_s)]: the first part is the present round's,
the second credits the arm that was drawn with all that came after it.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.functional.softmax import masked, odds_of


class Score(NamedTuple):
    """Of one round."""

    reward: Tensor  # (*B,) rbar, the expected reward
    present: Tensor  # (*B,) d rbar / dbeta
    score: Tensor  # (*B,) d log p(arm) / dbeta


def logit_slope(
    mu_hat: Tensor,  # (*B, K)
    width: Tensor,  # (*B, K)
    beta: Tensor,  # () or (*B,)
    index: Tensor,  # (*B, K) S
    gamma: Tensor,  # (*B,)
    *,
    delta: float | Tensor,
    smoothing: float | None,  # kappa of the smooth coldness; None: gamma of Eq. 9
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B, K)
    """d(gamma S_i) / dbeta, up to a constant of the round.

    The derivative holds where gamma has one: everywhere with the smooth coldness, between the jumps of |L| with Eq. 9's.

    Example:
        >>> mu_hat, width, beta = torch.tensor([1.0, 0.0]), torch.tensor([0.1, 0.2]), torch.tensor(1.0)
        >>> S = torch.tensor([0.2, -0.7])  # gamma = log(9) / 0.2; dS = (0.2, 0.3); dgamma = -gamma
        >>> logit_slope(mu_hat, width, beta, S, torch.tensor(10.9861), delta=0.9, smoothing=None)
        tensor([-1.0986,  9.8875])
    """
    beta = beta.unsqueeze(-1)
    star = masked(torch.addcmul(mu_hat, beta, width, value=-1), mask).argmax(-1, keepdim=True)
    rise = width + width.gather(-1, star)  # dS / dbeta = phi, Eq. 6
    s_max, best = masked(index, mask).max(-1, keepdim=True)
    s_safe = torch.where(s_max > 0, s_max, torch.ones_like(s_max))  # gamma is 0 there, and stays so
    top_rise = rise.gather(-1, best) / s_safe
    gamma = gamma.unsqueeze(-1)
    gamma_slope = -gamma * top_rise
    if smoothing is not None:
        above = index.clamp(min=0)
        near = torch.exp(above / (-smoothing * s_safe))
        near = near if mask is None else near.masked_fill(~mask, 0.0)
        odds = odds_of(delta, index.dtype)
        moved = torch.where(index > 0, rise, torch.zeros_like(rise)) - above * top_rise
        count_rise = -(near * moved).sum(-1, keepdim=True) / (smoothing * s_safe)
        gamma_slope = gamma_slope + odds * count_rise / (1 + odds * near.sum(-1, keepdim=True)) / s_safe
    gamma_slope = torch.where(s_max > 0, gamma_slope, torch.zeros_like(gamma_slope))
    return gamma_slope * index + gamma * width


def delta_slope(
    index: Tensor,  # (*B, K) S
    *,
    delta: float | Tensor,
    smoothing: float | None,  # kappa of the smooth coldness; None: gamma of Eq. 9
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B, K)
    """d(gamma S_i) / d logit(delta): the odds of delta stand in gamma's logarithm.

    Example:
        >>> delta_slope(torch.tensor([0.2, -0.7]), delta=0.9, smoothing=None)  # S / max S
        tensor([ 1.0000, -3.5000])
    """
    s_max = masked(index, mask).amax(-1, keepdim=True)
    s_safe = torch.where(s_max > 0, s_max, torch.ones_like(s_max))
    low = (index < 0) if smoothing is None else torch.exp(index.clamp(min=0) / (-smoothing * s_safe))
    count = low.to(index.dtype) if mask is None else low.to(index.dtype).masked_fill(~mask, 0.0)
    scaled = count.sum(-1, keepdim=True) * odds_of(delta, index.dtype)
    share = (scaled > 0).to(index.dtype) if smoothing is None else scaled / (1 + scaled)
    return index * torch.where(s_max > 0, share / s_safe, torch.zeros_like(share))


def trajectory_score(
    probs: Tensor,  # (*B, K)
    slope: Tensor,  # (*B, K) logit_slope
    means: Tensor,  # (*B, K) true
    arm: Tensor,  # (*B,)
) -> Score:
    """The parts of a trajectory's gradient that one round gives.

    Example:
        >>> probs, slope, means = torch.tensor([0.5, 0.5]), torch.tensor([2.0, 0.0]), torch.tensor([1.0, 0.0])
        >>> trajectory_score(probs, slope, means, torch.tensor(1))
        Score(reward=tensor(0.5000), present=tensor(0.5000), score=tensor(-1.))
    """
    centred = slope - (probs * slope).sum(-1, keepdim=True)
    reward = (probs * means).sum(-1)
    present = (probs * means * centred).sum(-1)
    return Score(reward, present, centred.gather(-1, arm.unsqueeze(-1)).squeeze(-1))


def reward_to_go(reward: Tensor) -> Tensor:  # (T, *B) -> (T, *B)
    """Sum over the rounds after each.

    Example:
        >>> reward_to_go(torch.tensor([1.0, 2.0, 4.0]))
        tensor([6., 4., 0.])
    """
    return reward.flip(0).cumsum(0).flip(0) - reward
