"""EM for the distribution of theta over users; the formulas are in :mod:`torch_softucb.functional.hierarchical_ridge`.

EM takes small steps where users have few observations. So after every two iterations the line through the three models is
extrapolated (SQUAREM: R. Varadhan, C. Roland, Scandinavian Journal of Statistics 35, 2008), in coordinates without units,
and the result is kept only if its evidence is not smaller.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.errors import NumericalError
from torch_softucb.functional.scales import NOISE_FLOOR, RegressionSums

_BLOCK = 1 << 18  # numbers of a block of Gram matrices: 2 MB, so that a block stays in the processor's cache
_TOLERANCE = 1e-7  # nats per observation: EM stops when an iteration gains less
_MAX_ITERATIONS = 300


class Model(NamedTuple):
    """Distribution of theta over users, noise and offset."""

    mean: Tensor  # (d,)
    covariance: Tensor  # (d, d)
    variance: Tensor  # () s^2
    offset: Tensor  # ()


class Shrinkage(NamedTuple):
    """What the covariance is shrunk towards, and the number of users that this counts for."""

    target: Tensor  # (d, d) T
    users: float  # k


class _Expected(NamedTuple):
    """Sums over users that the maximisation step needs."""

    log_evidence: Tensor  # () without the penalty
    shift: Tensor  # (d,) sum of mu_u - m
    second: Tensor  # (d, d) sum of S_u + (mu_u - m)(mu_u - m)^T
    error: Tensor  # () E sum (y - c - x . theta)^2
    sum_error: Tensor  # () E sum (y - c - x . theta)


def noise_floor(sums: RegressionSums) -> Tensor:  # ()
    """Return the smallest noise variance: rewards without noise would have an infinite evidence."""
    n, total = sums.num_observations.sum(), sums.sum_y.sum()
    return NOISE_FLOOR * (sums.energy.sum() - total.square() / n) / n


def maximised(sums: RegressionSums, model: Model, shrinkage: Shrinkage) -> tuple[Model, list[Tensor]]:
    """Run EM from a model; returns the model and the penalised evidence along the way, which ends at that model."""
    enough, floor = _TOLERANCE * sums.num_observations.sum(), noise_floor(sums)
    model = model._replace(variance=torch.maximum(model.variance, floor))
    value, found = evaluated(sums, model, shrinkage)
    evidence, path = [value], [model]
    while len(evidence) <= _MAX_ITERATIONS:
        if len(path) == 3:
            proposed, path = _extrapolated(path), path[-1:]
            if proposed is not None and proposed.variance >= floor:
                value, there = evaluated(sums, proposed, shrinkage)
                if value >= evidence[-1]:
                    path, found = [proposed], there
                    evidence.append(value)
        model = maximisation(sums, path[-1], found, shrinkage)
        value, found = evaluated(sums, model, shrinkage)
        evidence.append(value)
        path.append(model)
        if value - evidence[-2] < enough:
            break
    return path[-1], evidence


def evaluated(sums: RegressionSums, model: Model, shrinkage: Shrinkage) -> tuple[Tensor, _Expected]:  # ()
    """Return the penalised evidence of a model, and the expectation step from it."""
    factor = torch.linalg.cholesky(model.covariance)
    inverse = torch.cholesky_inverse(factor)
    found = _expected(sums, model, inverse)
    log_det, users = 2 * factor.diagonal().log().sum(), len(sums.gram)
    penalty = shrinkage.users * (log_det + (inverse * shrinkage.target).sum()) / 2
    return found.log_evidence - users * log_det / 2 - penalty, found


def maximisation(sums: RegressionSums, model: Model, found: _Expected, shrinkage: Shrinkage) -> Model:
    """Return the model of the maximisation step."""
    users, n = len(sums.gram), sums.num_observations.sum()
    shift, step = found.shift / users, found.sum_error / n
    spread = found.second - users * torch.outer(shift, shift) + shrinkage.users * shrinkage.target
    covariance = spread / (users + shrinkage.users)
    return Model(
        mean=model.mean + shift,
        covariance=(covariance + covariance.mT) / 2,
        variance=torch.maximum(found.error / n - step.square(), noise_floor(sums)),
        offset=model.offset + step,
    )


def _extrapolated(path: list[Model]) -> Model | None:
    """Return the model that three consecutive ones point to; None if it would have no covariance."""
    start = path[0]
    factor = torch.linalg.cholesky(start.covariance)

    def coordinates(model: Model) -> Tensor:
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
    return Model(
        mean=start.mean + factor @ at[:d],
        covariance=(covariance + covariance.mT) / 2,
        variance=start.variance * at[-2].exp(),
        offset=start.offset + start.variance.sqrt() * at[-1],
    )


def residual_sums(sums: RegressionSums, offset: Tensor, mean: Tensor) -> RegressionSums:  # (), (d,)
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


def _expected(sums: RegressionSums, model: Model, inverse: Tensor) -> _Expected:  # (d, d)
    """Run the expectation step over all users, in blocks."""
    size = max(1, _BLOCK // inverse.numel())
    total: list[Tensor] = []
    for first in range(0, len(sums.gram), size):
        part = RegressionSums(*(value[first : first + size] for value in sums))
        values = _expected_block(part, model, inverse, first)
        total = [a + b for a, b in zip(total, values, strict=True)] if total else list(values)
    return _Expected(*total)


def _expected_block(sums: RegressionSums, model: Model, inverse: Tensor, first: int) -> _Expected:  # (d, d) Sigma^-1
    left, variance, (users, d) = residual_sums(sums, model.offset, model.mean), model.variance, sums.sum_x.shape
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
