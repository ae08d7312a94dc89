"""Decisions and updates of a single bandit that estimates its scales, in numpy; see fast_path.py.

The formulas are those of functional/scales.py, policies/scales.py and policies/auto.py; the tests compare the two.
"""

import math
from typing import NamedTuple

import numpy as np
from torch import Tensor

from torch_softucb.functional.scales import ALL_EQUAL, CAUTION, FEWEST, FINE, HIGH, LOW, NOISE_FLOOR, SPREAD
from torch_softucb.policies import fast_path
from torch_softucb.policies.fast_path import ArmEstimate, Array
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.policies.prior_scales import summarise_one
from torch_softucb.policies.rows import LONG_SQ, RowLayout
from torch_softucb.policies.scales import (
    DUE,
    GROWTH,
    NOISE_STD,
    OFFSET,
    OFFSET_VARIANCE,
    RHO,
    SUM_X,
    SUMMARY_START,
    TOTAL,
    WEIGHT,
)

_COARSE, _FINE = np.linspace(LOW, HIGH, HIGH - LOW + 1), np.linspace(-1, 1, FINE)
_TINY = float(np.finfo(np.float64).tiny)


class _Sums(NamedTuple):
    """Sums of one bandit in the eigenvectors of sum x x^T; names as in functional/scales.py."""

    e: Array  # (d,)
    zx: Array  # (d,)
    zy: Array  # (d,)
    n: float
    sum_y: float
    energy: float
    unit: float
    spread: float


def estimate(
    row: Tensor,  # (size,)
    arms: Tensor,  # (K, d)
    layout: RowLayout,
    prior: GaussianPrior | None = None,
) -> ArmEstimate:
    """Return the mean of each arm relative to the offset, its width in the unit of the rewards, and the offset."""
    numbers, dim = row.numpy(), layout.dim
    memory = numbers[layout.memory]
    root = numbers[layout.root].reshape(dim, dim)
    x = arms.numpy().astype(np.float64)
    if prior is not None:  # the offset is known and the noise too
        w = x @ prior.arrays.factor @ root
        found = ArmEstimate(w @ (numbers[layout.b] @ root), np.sqrt(np.vecdot(w, w)) * prior.noise_std)
        return fast_path.with_prior(found, x, prior)
    w = x @ root
    slope = 1 - x @ memory[SUM_X + dim :]  # of an arm's mean with respect to the offset
    width = np.sqrt(np.vecdot(w, w) + memory[OFFSET_VARIANCE] * slope * slope)
    base, noise = float(memory[0] + memory[OFFSET]), float(memory[NOISE_STD])
    if noise == 0:
        return ArmEstimate(np.zeros(len(w)), width, base)
    b = numbers[layout.b] - memory[OFFSET] * memory[SUM_X : SUM_X + dim]  # sum x (y - c)
    return ArmEstimate(w @ (b @ root), width * noise, base)


def observed(
    statistics: Tensor,  # (size,)
    x: Tensor,  # (d,)
    reward: Tensor,  # ()
    refresh_every: int,
    layout: RowLayout,
    prior: GaussianPrior | None = None,
) -> Array | None:  # (size,)
    """Return the statistics of one bandit after one more observation, with new scales if they are due.

    Returns:
        None for the first observation, which sets the anchor (unless there is a prior), if the reward needs a gradient, if
        a number is not finite or huge, or if a refresh is due.
    """
    row = statistics.numpy()
    total = float(row[layout.memory][TOTAL]) + 1
    if total == 1 and prior is None:
        return None
    new = added(row, x, reward, refresh_every, layout, prior)
    if new is None:
        return None
    memory = new[layout.memory]
    memory[TOTAL] = total
    if total >= memory[DUE]:
        _rescale(new, layout) if prior is None else summarise_one(new, layout)
    return new if math.isfinite(np.add.reduce(new)) else None


def added(
    row: Array,  # (size,)
    x: Tensor,  # (d,)
    reward: Tensor,  # ()
    refresh_every: int,
    layout: RowLayout,
    prior: GaussianPrior | None = None,
) -> Array | None:  # (size,)
    """Return the statistics of one row with one more observation in its sums; the scales stay as they are.

    Returns:
        None if the reward needs a gradient, if a number is not finite or huge, or if a refresh is due.
    """
    if reward.requires_grad:
        return None
    wide, number = fast_path.observation(x, reward, prior)
    refresh = (row[layout.num_observations] + 1) % refresh_every == 0
    if refresh or not math.isfinite(number) or not wide @ wide <= LONG_SQ:
        return None
    relative = number - float(row[layout.memory][0])
    new = fast_path.observe(row, wide, relative, row[layout.gamma], layout)
    memory = new[layout.memory]
    memory[WEIGHT] += 1
    memory[WEIGHT + 1] += relative
    memory[WEIGHT + 2] += relative * relative
    memory[SUM_X : SUM_X + layout.dim] += wide
    return new if math.isfinite(np.add.reduce(new)) else None


def _rescale(row: Array, layout: RowLayout) -> None:  # (size,), written in place
    """Estimate the scales of one bandit; twin of :func:`torch_softucb.policies.scales.estimated`."""
    dim, memory, b = layout.dim, row[layout.memory], row[layout.b]
    V = row[layout.V].reshape(dim, dim)
    V[np.diag_indices(dim)] -= memory[RHO]
    n, sum_y, energy = (float(value) for value in memory[WEIGHT : WEIGHT + 3])
    eigenvalues, vectors = np.linalg.eigh(V)
    e = np.maximum(eigenvalues, 0)
    sum_x = memory[SUM_X : SUM_X + dim]
    zx, zy = sum_x @ vectors, b @ vectors
    mean, unit = sum_y / n, float(e.sum()) / n
    unit, spread = unit if unit > 0 else 1.0, energy - sum_y * mean
    known = n >= FEWEST and spread > ALL_EQUAL * energy
    sums = _Sums(e, zx, zy, n, sum_y, energy, unit, spread)
    power = 0.0
    if known:
        average, deviation = _posterior(_COARSE, sums)
        average, deviation = _posterior(average + (1 + 2 * deviation) * _FINE, sums)
        power = average - CAUTION * deviation
    _, error, c, a = (float(value[0]) for value in _fit(np.array([power]), sums))
    rho = unit * 10**power
    memory[OFFSET] = c if known else mean
    memory[NOISE_STD] = math.sqrt(error / max(n - 1, 1)) if known else 0.0
    memory[RHO] = rho
    memory[DUE] = memory[TOTAL] + max(1, math.floor(GROWTH * n))
    explained = max(0.0, 1 - error / max(spread, _TINY)) if known else 0.0
    memory[OFFSET_VARIANCE] = 1 / a
    shape = explained, power, np.log1p(e / rho).mean(), (rho / (e + rho)).mean()
    memory[SUMMARY_START:SUM_X] = (n, 1.0, *shape, n / memory[TOTAL])
    V[np.diag_indices(dim)] += rho
    root = np.linalg.inv(np.linalg.cholesky(V)).T
    memory[SUM_X + dim :] = root @ (sum_x @ root)
    row[layout.root] = root.reshape(-1)


def _posterior(power: Array, sums: _Sums) -> tuple[float, float]:  # (m,)
    """Return mean and deviation of log10 rho on a grid."""
    evidence = _fit(power, sums)[0] - 0.5 * (power / SPREAD) ** 2
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    average = float(weights @ power)
    return average, math.sqrt(float(weights @ (power - average) ** 2))


def _fit(power: Array, sums: _Sums) -> tuple[Array, Array, Array, Array]:  # (m,) -> (m,) each
    """Return the evidence, E, c and a at powers of 10 of rho over the unit."""
    rho = sums.unit * 10 ** power[:, None]
    ratio = 1 / (sums.e + rho)  # (m, d)
    a = np.maximum(sums.n - ratio @ (sums.zx * sums.zx), _TINY)
    c = (sums.sum_y - ratio @ (sums.zx * sums.zy)) / a
    left = sums.energy - ratio @ (sums.zy * sums.zy) - a * c * c
    error = np.maximum(left, max(NOISE_FLOOR * sums.spread, _TINY))
    determinant = np.log1p(sums.e / rho).sum(-1)
    return -0.5 * ((sums.n - 1) * np.log(error) + determinant + np.log(a)), error, c, a
