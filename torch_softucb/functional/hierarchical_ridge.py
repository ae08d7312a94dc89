r"""Distribution of theta over users, estimated from the sums of each user's observations.

The model is y = c + x . theta_u + noise, with noise ~ N(0, s^2) and theta_u ~ N(m, Sigma) for each user u. The evidence, in
which all theta_u are integrated out, is maximised over c, m, s and Sigma by EM. With G_u = sum x x^T over the user's
observations and r = y - c - x . m, the expectation step is

    S_u = (G_u / s^2 + Sigma^-1)^-1,     mu_u = m + S_u sum x r / s^2,

and the maximisation step

    m = mean mu_u,     Sigma = (sum_u S_u + (mu_u - m)(mu_u - m)^T + k T) / (U + k),
    c = mean of y - x . mu_u,     s^2 = E sum (y - c - x . theta_u)^2 / n.

Few users, or few observations of each, do not determine Sigma. The term k T, which counts as much as k users, comes from a
penalty of -k (log det Sigma + tr Sigma^-1 T) / 2 on the evidence; the sum of both never decreases. k is a multiple of d, the
one with the largest evidence for users that were left out. T = tau^2 I for features of mean square 1, or of mean 0 and
variance 1 if a constant is among them; tau^2 is the variance of theta around the model without users, estimated once at the
start (:func:`evidence_scales`). So no unit matters: rewards a y + k lead to a m, a^2 Sigma, a s and a c + k, and a feature
in another unit changes only its own row and column.

If a constant is among the features, c and its weight in m have the same effect. Only their sum is determined then.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_shape
from torch_softucb.functional.hierarchical_em import Model, Shrinkage, evaluated, maximised, noise_floor, residual_sums
from torch_softucb.functional.scales import RegressionSums, _evidence_scales, check_sums

_USERS = 1024  # users whose features are changed at a time
_FEW = 4096  # users that are enough for a first estimate, from which the one from all users starts
_DIGITS = 1e-10  # variance over mean square of the rewards below which their sums lose too many digits
_SHRINKAGE = (0.5, 2.0, 8.0, 32.0)  # users per feature that the shrinkage may count for
_SPLIT = 8  # fewest users that are divided to choose among them; the first is used for fewer
_WORK = 1 << 26  # about as many operations per iteration are spent on choosing
_CONSTANT = 1e-12  # variance over mean square below which a feature is a constant
_VARIES = 1e-9  # the same, below which the sums of a feature lose too many digits


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


def evidence_prior(sums: RegressionSums) -> HierarchicalRidge:
    """Mean and covariance of theta over users, and noise and offset, that make the rewards most likely.

    Args:
        sums: running sums of each user, with one batch dimension: ``(U,)``, ``(U, d)``, ``(U, d, d)``.

    Raises:
        ValueError: there are fewer than two users, a user has no observations, sums are NaN or infinite, all rewards are
            equal, or a feature varies too little around its mean for sums in float64.
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


def _evidence_prior(given: RegressionSums) -> HierarchicalRidge:
    basis = _basis(given)
    sums = _in_basis(given, basis)
    few = _some(sums, _FEW)
    model = _start(few)
    evaluated(sums, model, Shrinkage(model.covariance, 0.0))  # inconsistent sums are named by their row among all users
    shrinkage = _chosen(few, model)
    if len(few.gram) < len(sums.gram):
        model, _ = maximised(few, model, shrinkage)
    model, evidence = maximised(sums, model, shrinkage)
    mean, covariance = basis.mT @ model.mean, basis.mT @ model.covariance @ basis
    return HierarchicalRidge(
        mean, (covariance + covariance.mT) / 2, model.variance.sqrt(), model.offset, torch.stack(evidence), len(evidence) - 1
    )


def _basis(sums: RegressionSums) -> Tensor:  # (d, d)
    """Return the matrix that gives features comparable sizes; if one is a constant, the others are centred."""
    n, total, d = sums.num_observations.sum(), sums.sum_x.sum(0), sums.sum_x.shape[-1]
    mean, square = total / n, sums.gram.sum(0).diagonal() / n
    varies = (square - mean.square()) / torch.where(square > 0, square, torch.ones_like(square))
    unclear = (varies > _CONSTANT) & (varies < _VARIES)
    if bool(unclear.any()):
        at = int(unclear.nonzero()[0])
        raise ValueError(
            f"evidence_prior: feature {at} varies too little around {float(mean[at]):g} for sums in float64; subtract a "
            "constant from it, and do the same for new users"
        )
    constant = ((varies <= _CONSTANT) & (square > 0)).nonzero()
    basis = torch.eye(d, dtype=mean.dtype, device=mean.device)
    if len(constant):
        one = int(constant[0])
        basis[:, one] -= mean / mean[one]
        basis[one, one] = 1.0
        square = torch.where(varies <= _CONSTANT, square, square - mean.square())
    unit = torch.where(square > 0, square, torch.ones_like(square)).sqrt()
    return basis / unit.unsqueeze(-1)


def _in_basis(sums: RegressionSums, basis: Tensor) -> RegressionSums:  # (d, d)
    """Return the sums of features ``basis @ x``."""
    gram = torch.empty_like(sums.gram)
    for first in range(0, len(gram), _USERS):
        gram[first : first + _USERS] = basis @ sums.gram[first : first + _USERS] @ basis.mT
    return sums._replace(sum_x=sums.sum_x @ basis.mT, gram=gram, moment=sums.moment @ basis.mT)


def _some(sums: RegressionSums, most: int) -> RegressionSums:
    """Return the sums of at most so many users, spread evenly."""
    users = len(sums.gram)
    if users <= most:
        return sums
    chosen = torch.linspace(0, users - 1, most, dtype=torch.float64, device=sums.gram.device).long()
    return RegressionSums(*(value[chosen] for value in sums))


def _chosen(sums: RegressionSums, start: Model) -> Shrinkage:
    """Return the shrinkage with which each half of the users predicts the other best."""
    d = sums.sum_x.shape[-1]
    options = [Shrinkage(start.covariance, multiple * d) for multiple in _SHRINKAGE]
    if len(sums.gram) < _SPLIT:
        return options[0]
    sums = _some(sums, max(128, _WORK // d**3))
    spread = sums.energy - sums.sum_y.square() / sums.num_observations  # so that the order of the users does not matter
    order = spread.argsort()
    halves = [RegressionSums(*(value[order[first::2]] for value in sums)) for first in (0, 1)]

    def of_others(shrinkage: Shrinkage) -> float:
        nothing = shrinkage._replace(users=0.0)
        found = [maximised(half, start, shrinkage)[0] for half in halves]
        return sum(float(evaluated(half, model, nothing)[0]) for half, model in zip(halves[::-1], found, strict=True))

    return max(options, key=of_others)


def _start(sums: RegressionSums) -> Model:
    """Return the model without users, and the variance around it that a theta of each user explains."""
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
    found = _evidence_scales(residual_sums(sums, offset, mean), pooled=True)
    noise = found.noise_std if bool(found.noise_std.isfinite()) else common.noise_std[0]
    variance = torch.maximum(noise.square(), noise_floor(sums))
    return Model(mean, noise.square() / found.rho * eye, variance, offset)
