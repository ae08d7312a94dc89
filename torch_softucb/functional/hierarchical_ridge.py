r"""Distribution of theta over users, estimated from the sums of each user's observations.

The model is y = c + x . theta_u + noise, with noise ~ N(0, s^2) and theta_u ~ N(m, Sigma) for each user u. The evidence, in
which all theta_u are integrated out, is maximised over c, m, s and Sigma by EM. With G_u = sum x x^T over the user's
observations and r = y - c - x . m, the expectation step is

    S_u = (G_u / s^2 + Sigma^-1)^-1,     mu_u = m + S_u sum x r / s^2,

and the maximisation step

    m = mean mu_u,     Sigma = (sum_u S_u + (mu_u - m)(mu_u - m)^T + k T) / (U + k),
    c = mean of y - x . mu_u,     s^2 = E sum (y - c - x . theta_u)^2 / n.

Few users do not determine Sigma. The term k T, which counts as much as k = d / 2 users, comes from a penalty of
-k (log det Sigma + tr Sigma^-1 T) / 2 on the evidence; the sum of both never decreases. T = tau^2 diag(1 / mean x_j^2), and
tau^2 is the variance of theta around the model without users for features of mean square 1, estimated once at the start
(:func:`evidence_scales`). So no unit matters: rewards a y + k lead to a m, a^2 Sigma, a s and a c + k, and a feature in
another unit changes only its own row and column.

EM takes small steps where users have few observations. So after every two iterations the line through the three models is
extrapolated (SQUAREM: R. Varadhan, C. Roland, Scandinavian Journal of Statistics 35, 2008), in coordinates without units,
and the result is kept only if its evidence is not smaller.

If a constant is among the features, c and its weight in m have the same effect. Only their sum is determined then.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_shape
from torch_softucb.errors import NumericalError
from torch_softucb.functional.scales import NOISE_FLOOR, RegressionSums, _evidence_scales, check_sums

_BLOCK = 1 << 18  # numbers of a block of Gram matrices: 2 MB, so that a block stays in the processor's cache
_FEW = 4096  # users that are enough for a first estimate, from which the one from all users starts
_TOLERANCE = 1e-7  # nats per observation: EM stops when an iteration gains less
_MAX_ITERATIONS = 300
_DIGITS = 1e-10  # variance over mean square of the rewards below which their sums lose too many digits
_SHRINKAGE = 0.5  # users per feature that the shrinkage counts for; more helps below 20 users and hurts above


class HierarchicalRidge(NamedTuple):
    """Distribution of theta over users; float64.

    Attributes:
        mean: ``(d,)`` mean m of theta.
        covariance: ``(d, d)`` covariance Sigma of theta.
        noise_std: ``()`` standard deviation s of the reward noise.
        offset: ``()`` offset c.
        evidence: ``(iterations,)`` log-probability of the rewards, with the penalty, before each iteration and at the end.
        num_iterations: number of iterations over all users.
    """

    mean: Tensor  # (d,)
    covariance: Tensor  # (d, d)
    noise_std: Tensor  # ()
    offset: Tensor  # ()
    evidence: Tensor  # (iterations,)
    num_iterations: int


class _Model(NamedTuple):
    mean: Tensor  # (d,)
    covariance: Tensor  # (d, d)
    variance: Tensor  # () s^2
    offset: Tensor  # ()


class _Expected(NamedTuple):
    """Sums over users that the maximisation step needs."""

    log_evidence: Tensor  # () without the penalty
    shift: Tensor  # (d,) sum of mu_u - m
    second: Tensor  # (d, d) sum of S_u + (mu_u - m)(mu_u - m)^T
    error: Tensor  # () E sum (y - c - x . theta)^2
    sum_error: Tensor  # () E sum (y - c - x . theta)


def evidence_prior(sums: RegressionSums) -> HierarchicalRidge:
    """Mean and covariance of theta over users, and noise and offset, that make the rewards most likely.

    Args:
        sums: running sums of each user, with one batch dimension: ``(U,)``, ``(U, d)``, ``(U, d, d)``.

    Raises:
        ValueError: there are fewer than two users, a user has no observations, sums are NaN or infinite, or all rewards
            are equal.
        NumericalError: the sums of a user are inconsistent.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> theta = torch.tensor([2.0, -1.0]) + torch.randn(400, 1, 2, generator=g) * torch.tensor([1.0, 0.1])
        >>> x = torch.randn(400, 30, 2, generator=g)
        >>> y = 5 + (x * theta).sum(-1) + 0.5 * torch.randn(400, 30, generator=g)
        >>> x, y = x.double(), y.double()
        >>> gram, moment = x.mT @ x, (x * y.unsqueeze(-1)).sum(1)
        >>> sums = RegressionSums(torch.full((400,), 30.0).double(), x.sum(1), y.sum(1), gram, moment, y.square().sum(1))
        >>> found = evidence_prior(sums)
        >>> found.mean.round(decimals=1), found.covariance.diagonal().sqrt().round(decimals=1)
        (tensor([ 2.1000, -1.0000], dtype=torch.float64), tensor([0.9000, 0.1000], dtype=torch.float64))
        >>> round(float(found.noise_std), 2), round(float(found.offset), 2)
        (0.5, 5.0)
    """
    where = "evidence_prior"
    batch = sums.num_observations.shape
    check_shape(where, "num_observations", batch, len(batch) == 1, "(U,), one number per user")
    check_sums(where, sums)
    if len(sums.num_observations) < 2:
        raise ValueError(f"{where}: at least two users are needed to see how they differ, got {batch[0]}")
    empty = ~(sums.num_observations > 0)
    if bool(empty.any()):
        row = int(empty.nonzero()[0])
        raise ValueError(f"{where}: user without observations in row {row}, and {int(empty.sum()) - 1} more; leave them out")
    return _evidence_prior(sums)


def _evidence_prior(sums: RegressionSums) -> HierarchicalRidge:
    users = len(sums.num_observations)
    few = sums
    if users > _FEW:
        chosen = torch.linspace(0, users - 1, _FEW, dtype=torch.float64, device=sums.gram.device).long()
        few = RegressionSums(*(value[chosen] for value in sums))
    model = _start(few)
    target = model.covariance
    if users > _FEW:
        model, _ = _maximised(few, model, target)
    model, evidence = _maximised(sums, model, target)
    noise_std = model.variance.sqrt()
    return HierarchicalRidge(model.mean, model.covariance, noise_std, model.offset, torch.stack(evidence), len(evidence) - 1)


def _start(given: RegressionSums) -> _Model:
    """Return the model without users, and the variance around it that a theta of each user explains."""
    unit = (given.gram.sum(0).diagonal() / given.num_observations.sum()).sqrt()
    unit = torch.where(unit > 0, unit, torch.ones_like(unit))
    sums = given._replace(
        sum_x=given.sum_x / unit, gram=given.gram / (unit.unsqueeze(-1) * unit), moment=given.moment / unit
    )
    total = RegressionSums(*(value.sum(0, keepdim=True) for value in sums))
    common = _evidence_scales(total, pooled=False)
    n, mean_y = total.num_observations, total.sum_y / total.num_observations
    if not bool(common.noise_std.isfinite()):
        raise ValueError(
            f"evidence_prior: rewards must differ, got {float(mean_y):g} in all {int(n)} observations; nothing can be "
            "learned from them"
        )
    if bool(total.energy - n * mean_y.square() < _DIGITS * total.energy):
        raise ValueError(
            f"evidence_prior: rewards of mean {float(mean_y):g} differ too little for sums in float64; subtract a constant "
            "from the rewards, and add it to the offset that is found"
        )
    d, offset = sums.sum_x.shape[-1], common.offset[0]
    eye = torch.eye(d, dtype=sums.gram.dtype, device=sums.gram.device)
    mean = torch.linalg.solve(total.gram[0] + common.rho * eye, total.moment[0] - offset * total.sum_x[0])
    found = _evidence_scales(_residual_sums(sums, offset, mean), pooled=True)
    noise = found.noise_std if bool(found.noise_std.isfinite()) else common.noise_std[0]
    variance = torch.maximum(noise.square(), _noise_floor(sums))
    return _Model(mean / unit, noise.square() / found.rho * (eye / unit.square()), variance, offset)


def _noise_floor(sums: RegressionSums) -> Tensor:  # ()
    """Return the smallest noise variance: rewards without noise would have an infinite evidence."""
    n, total = sums.num_observations.sum(), sums.sum_y.sum()
    return NOISE_FLOOR * (sums.energy.sum() - total.square() / n) / n


def _maximised(sums: RegressionSums, model: _Model, target: Tensor) -> tuple[_Model, list[Tensor]]:  # (d, d)
    """Run EM from a model; returns the model and the penalised evidence along the way, which ends at that model."""
    enough, floor = _TOLERANCE * sums.num_observations.sum(), _noise_floor(sums)
    model = model._replace(variance=torch.maximum(model.variance, floor))
    value, found = _evaluated(sums, model, target)
    evidence, path = [value], [model]
    while len(evidence) <= _MAX_ITERATIONS:
        if len(path) == 3:
            proposed, path = _extrapolated(path), path[-1:]
            if proposed is not None and proposed.variance >= floor:
                value, there = _evaluated(sums, proposed, target)
                if value >= evidence[-1]:
                    path, found = [proposed], there
                    evidence.append(value)
        model = _maximisation(sums, path[-1], found, target)
        value, found = _evaluated(sums, model, target)
        evidence.append(value)
        path.append(model)
        if value - evidence[-2] < enough:
            break
    return path[-1], evidence


def _evaluated(sums: RegressionSums, model: _Model, target: Tensor) -> tuple[Tensor, _Expected]:  # (d, d) -> ()
    """Return the penalised evidence of a model, and the expectation step from it."""
    factor = torch.linalg.cholesky(model.covariance)
    inverse = torch.cholesky_inverse(factor)
    found = _expected(sums, model, inverse)
    log_det, (users, d) = 2 * factor.diagonal().log().sum(), sums.sum_x.shape
    penalty = _SHRINKAGE * d * (log_det + (inverse * target).sum()) / 2
    return found.log_evidence - users * log_det / 2 - penalty, found


def _maximisation(sums: RegressionSums, model: _Model, found: _Expected, target: Tensor) -> _Model:  # (d, d)
    users, d = sums.sum_x.shape
    n = sums.num_observations.sum()
    shift, step = found.shift / users, found.sum_error / n
    extra = _SHRINKAGE * d
    covariance = (found.second - users * torch.outer(shift, shift) + extra * target) / (users + extra)
    return _Model(
        mean=model.mean + shift,
        covariance=(covariance + covariance.mT) / 2,
        variance=torch.maximum(found.error / n - step.square(), _noise_floor(sums)),
        offset=model.offset + step,
    )


def _extrapolated(path: list[_Model]) -> _Model | None:
    """Return the model that three consecutive ones point to; None if it would have no covariance."""
    start = path[0]
    factor = torch.linalg.cholesky(start.covariance)

    def coordinates(model: _Model) -> Tensor:
        half = torch.linalg.solve_triangular(factor, model.covariance, upper=False)
        parts = (
            torch.linalg.solve_triangular(factor, (model.mean - start.mean).unsqueeze(-1), upper=False),
            torch.linalg.solve_triangular(factor, half.mT, upper=False),
            (model.variance / start.variance).log(),
            (model.offset - start.offset) / start.variance.sqrt(),
        )
        return torch.cat([part.flatten() for part in parts])

    first, second, third = (coordinates(model) for model in path)
    speed, bend = second - first, third - 2 * second + first
    length = torch.linalg.vector_norm(speed) / torch.linalg.vector_norm(bend).clamp(min=torch.finfo(bend.dtype).tiny)
    if length <= 1:
        return None
    at, d = first + 2 * length * speed + length.square() * bend, len(factor)
    covariance = factor @ at[d:-2].view(d, d) @ factor.mT
    if not bool(at.isfinite().all()) or bool(torch.linalg.cholesky_ex(covariance)[1]):
        return None
    return _Model(
        mean=start.mean + factor @ at[:d],
        covariance=(covariance + covariance.mT) / 2,
        variance=start.variance * at[-2].exp(),
        offset=start.offset + start.variance.sqrt() * at[-1],
    )


def _residual_sums(sums: RegressionSums, offset: Tensor, mean: Tensor) -> RegressionSums:  # (), (d,)
    """Return the sums of rewards relative to offset + x . mean."""
    n, sum_x, sum_y, gram, moment, energy = sums
    fitted = gram @ mean
    left = moment - offset * sum_x  # sum x (y - c)
    return RegressionSums(
        n,
        sum_x,
        sum_y - n * offset - sum_x @ mean,
        gram,
        left - fitted,
        energy - 2 * offset * sum_y + n * offset.square() - (2 * left - fitted) @ mean,
    )


def _expected(sums: RegressionSums, model: _Model, inverse: Tensor) -> _Expected:  # (d, d)
    """Run the expectation step over all users, in blocks."""
    size = max(1, _BLOCK // inverse.numel())
    total: list[Tensor] = []
    for first in range(0, len(sums.gram), size):
        part = RegressionSums(*(value[first : first + size] for value in sums))
        values = _expected_block(part, model, inverse, first)
        total = [a + b for a, b in zip(total, values, strict=True)] if total else list(values)
    return _Expected(*total)


def _expected_block(sums: RegressionSums, model: _Model, inverse: Tensor, first: int) -> _Expected:  # (d, d) Sigma^-1
    left, variance, (users, d) = _residual_sums(sums, model.offset, model.mean), model.variance, sums.sum_x.shape
    lower, info = torch.linalg.cholesky_ex(sums.gram / variance + inverse)
    if bool((info != 0).any()):
        row = first + int((info != 0).nonzero()[0])
        raise NumericalError(
            f"evidence_prior: gram must be a sum of x x^T, got one with a negative eigenvalue in row {row}; "
            "recompute the sums in float64"
        )
    eye = torch.eye(d, dtype=lower.dtype, device=lower.device)
    root = torch.linalg.solve_triangular(lower, eye.expand_as(lower), upper=False)  # S_u = root^T root
    pull = left.moment / variance
    shift = (root.mT @ (root @ pull.unsqueeze(-1))).squeeze(-1)  # mu_u - m
    rows = root.reshape(-1, d)
    second, learned = rows.mT @ rows + shift.mT @ shift, (shift * pull).sum()
    error, n = left.energy.sum(), left.num_observations.sum()
    log_det = 2 * lower.diagonal(dim1=-2, dim2=-1).log().sum()
    return _Expected(
        log_evidence=-(n * torch.log(2 * math.pi * variance) + log_det + error / variance - learned) / 2,
        shift=shift.sum(0),
        second=second,
        error=error + variance * (users * d - learned - (inverse * second).sum()),
        sum_error=left.sum_y.sum() - (left.sum_x * shift).sum(),
    )
