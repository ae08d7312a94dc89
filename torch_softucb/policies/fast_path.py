"""Decisions and updates of a single bandit on the CPU without gradients, in numpy.

For one request with few arms the dispatch of torch operations costs more than the arithmetic. The formulas are those of
functional/, in float64; tests/policies/test_fast_path.py compares the two.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.checks import values_readable
from torch_softucb.functional.softmax import SMALLEST
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.policies.rows import LONG_SQ, RowLayout

Array = NDArray[np.float64]
_IN_NUMPY = (torch.float32, torch.float64)
MAX_FEATURES = 2**14  # largest K * d; above it the arithmetic dominates and torch is as fast


def applies(row: Tensor, features: Tensor, dims: int) -> bool:
    """Return whether numpy can handle these features: one bandit, CPU, float32 or float64, no gradient, not traced."""
    return row.dim() == 1 and row.is_cpu and numpy_can_read(features, dims)


def numpy_can_read(features: Tensor, dims: int) -> bool:
    """Return whether features are few, float32 or float64, need no gradient and are not traced."""
    too_many = features.numel() > MAX_FEATURES or features.dtype not in _IN_NUMPY
    if features.dim() != dims or too_many or not features.is_cpu or features.requires_grad:
        return False
    return values_readable(features)


class ArmEstimate(NamedTuple):
    """Estimates of the arms of one decision.

    Attributes:
        mu_hat: ``(K,)`` mean reward of each arm, relative to the offset.
        width: ``(K,)`` confidence width of each arm.
        offset: what ``mu_hat`` is relative to.
    """

    mu_hat: Array  # (K,)
    width: Array  # (K,)
    offset: float = 0.0


def estimate(
    row: Tensor,  # (size,)
    arms: Tensor,  # (K, d)
    layout: RowLayout,
    prior: GaussianPrior | None = None,
) -> ArmEstimate:
    """Return the mean and width of each arm; twin of :func:`torch_softucb.functional.ridge_estimate`."""
    numbers, dim = row.numpy(), layout.dim
    root, b = numbers[layout.root].reshape(dim, dim), numbers[layout.b]
    x = arms.numpy().astype(np.float64)
    w = (x if prior is None else x @ prior.arrays.factor) @ root
    return with_prior(ArmEstimate(w @ (b @ root), np.sqrt(np.vecdot(w, w))), x, prior)


def with_prior(found: ArmEstimate, x: Array, prior: GaussianPrior | None) -> ArmEstimate:  # (K, d) or (d,)
    """Return estimates from whitened coordinates in the unit of the rewards; twin of ``estimates.with_prior``."""
    if prior is None:
        return found
    own = prior.arrays
    return ArmEstimate(found.mu_hat + x @ own.mean, found.width, own.offset)


def observation(x: Tensor, reward: Tensor, prior: GaussianPrior | None) -> tuple[Array, float]:  # (d,), () -> (d,), number
    """Return features and reward as the statistics take them; with a prior, whitened and centred."""
    wide, number = x.numpy().astype(np.float64), reward.item()
    if prior is None:
        return wide, number
    own = prior.arrays
    return wide @ own.factor, number - own.offset - float(wide @ own.mean)


class SoftChoice(NamedTuple):
    """Numbers behind one SoftUCB decision.

    Attributes:
        probs: ``(K,)`` probability of each arm, Eq. 8.
        S: ``(K,)`` index of each arm, Eq. 7.
        gamma: coldness behind ``probs``.
        next_gamma: coldness computed from this round's index, Eq. 9.
        top: largest index of the allowed arms.
    """

    probs: Array  # (K,)
    S: Array  # (K,)
    gamma: float
    next_gamma: float
    top: float


def soft_choice(
    mu_hat: Array,  # (K,)
    width: Array,  # (K,)
    beta: float,
    *,
    delta: float,
    smoothing: float | None,
    carried: float | None,
    mask: NDArray[np.bool_] | None,  # (K,)
) -> SoftChoice:
    """Compute SoftUCB's decision; twin of soft_ucb_index, coldness or smooth_coldness, and arm_probabilities.

    Args:
        mu_hat: estimated mean reward of each arm.
        width: norm of each arm in the inverse Gram matrix.
        beta: confidence width.
        delta: delta of Eq. 9.
        smoothing: kappa of the smooth coldness; None for Eq. 9.
        carried: coldness of the previous round with ``coldness="lagged"``, else None.
        mask: allowed arms.
    """
    radius = beta * width
    lower = mu_hat - radius
    index = mu_hat + radius
    index -= np.maximum.reduce(lower if mask is None else lower[mask])  # Eq. 7
    allowed = index if mask is None else index[mask]
    top = float(np.maximum.reduce(allowed))
    odds = delta / (1 - delta)
    gamma = 0.0  # nothing to eliminate yet (D1)
    if top > SMALLEST:
        if smoothing is not None:
            soft_count = float(np.exp(np.maximum(allowed, 0) / (-smoothing * top)).sum())
            gamma = math.log1p(soft_count * odds) / top  # Eq. 9 with a soft count (D6)
        elif num_low := int(np.count_nonzero(allowed < 0)):
            gamma = math.log(num_low * odds) / top  # Eq. 9
    used = gamma if carried is None else carried
    weights = np.exp(used * (index - top))  # Eq. 8
    if mask is not None:
        weights *= mask
    return SoftChoice(weights / np.add.reduce(weights), index, used, gamma, top)


def observed(
    statistics: Tensor,  # (size,)
    x: Tensor,  # (d,)
    reward: Tensor,  # ()
    gamma: float | None,
    refresh_every: int,
    layout: RowLayout,
    prior: GaussianPrior | None = None,
) -> Array | None:  # (size,)
    """Return the statistics of one bandit after one more observation.

    Args:
        statistics: statistics before; not written to.
        x: features of the arm that was played.
        reward: observed reward.
        gamma: coldness to carry to the next round; None keeps the present one.
        refresh_every: as in the policy.
        layout: positions within the row.
        prior: prior of the policy.

    Returns:
        None if the reward needs a gradient, a number is not finite or huge, or a refresh is due.
    """
    if reward.requires_grad:
        return None
    row, (wide, number) = statistics.numpy(), observation(x, reward, prior)
    due = (row[layout.num_observations] + 1) % refresh_every == 0
    if due or not math.isfinite(number) or not wide @ wide <= LONG_SQ:
        return None
    new = observe(row, wide, number, row[layout.gamma] if gamma is None else gamma, layout)
    return new if math.isfinite(np.add.reduce(new)) else None


def observe(row: Array, x: Array, reward: float, gamma: float, layout: RowLayout) -> Array:  # (size,), (d,) -> (size,)
    """Return the row after one observation, without a refresh; twin of :func:`torch_softucb.policies.rows.observe_one`."""
    new, dim = row.copy(), layout.dim
    V, root, b = new[layout.V].reshape(dim, dim), new[layout.root].reshape(dim, dim), new[layout.b]
    V += x[:, None] * x
    w = x @ root
    s = 1.0 + float(w @ w)
    root -= (root @ w)[:, None] * (w / (s + math.sqrt(s)))  # functional.ridge_root_update
    b += x * reward
    new[layout.num_observations] += 1.0
    new[layout.gamma] = gamma
    return new


def as_tensor(row: Array) -> Tensor:  # (size,)
    """Return a tensor that shares the memory of ``row`` and that updates outside of inference mode may replace."""
    if not torch.is_inference_mode_enabled():
        return torch.from_numpy(row)
    with torch.inference_mode(False):
        return torch.from_numpy(row)
