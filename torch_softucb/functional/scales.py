r"""Offset, noise and prior scale of a linear model, estimated from running sums.

The model is y = c + x . theta + noise, with noise ~ N(0, s^2), theta ~ N(0, p^2 I) and a free offset c. With
rho = s^2 / p^2 and V = rho I + sum x x^T, the offset and the noise that make the rewards most likely have closed forms,

    c = (sum y - sum_x . V^-1 sum_xy) / a,     a = n - sum_x . V^-1 sum_x,
    s^2 = E / (n - 1),                         E = sum y^2 - sum_xy . V^-1 sum_xy - a c^2,

and what is left is one number, rho. Its log evidence, with c integrated out, is
-((n - 1) log E + log det(V / rho) + log a) / 2. It is evaluated on a grid of rho over the mean squared length of the
features, so that neither the unit of the rewards nor that of the features matters, and its maximum is interpolated.
Bandits whose rewards have the same unit (users of one product, arms without features) can share the three numbers: their
terms are summed.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_finite, check_float_tensor, check_shape

_LOW, _HIGH, _PER_DECADE = -5, 4, 4  # powers of 10 of rho over the mean squared feature length, grid points per decade
_SPREAD = 2.0  # decades: weak Gaussian prior of log10 rho around "noise as large as the linear effect"
NOISE_FLOOR = 1e-3  # smallest noise variance, as a share of the variance of the rewards
_FEWEST = 3  # observations before the noise can be estimated


class RegressionSums(NamedTuple):
    """Running sums of one bandit or a batch, all float64. Rewards may be relative to any anchor.

    Attributes:
        num_observations: ``(*B,)`` number of observations n.
        sum_x: ``(*B, d)`` sum of the features.
        sum_y: ``(*B,)`` sum of the rewards.
        gram: ``(*B, d, d)`` sum of x x^T.
        moment: ``(*B, d)`` sum of x y.
        energy: ``(*B,)`` sum of y^2.
    """

    num_observations: Tensor  # (*B,)
    sum_x: Tensor  # (*B, d)
    sum_y: Tensor  # (*B,)
    gram: Tensor  # (*B, d, d)
    moment: Tensor  # (*B, d)
    energy: Tensor  # (*B,)


class Scales(NamedTuple):
    """Scales of each bandit, or of all of them if they are pooled; ``*G`` is ``*B`` or ``()``.

    Attributes:
        offset: ``(*G,)`` offset c, in the unit of the rewards; the mean reward where the noise is not known yet.
        noise_std: ``(*G,)`` noise standard deviation s, in the unit of the rewards; NaN where it is not known yet.
        rho: ``(*G,)`` s^2 / p^2, in the squared unit of the features.
    """

    offset: Tensor  # (*G,)
    noise_std: Tensor  # (*G,)
    rho: Tensor  # (*G,)

    @property
    def prior_std(self) -> Tensor:  # (*G,)
        """Prior standard deviation p of each component of theta."""
        return self.noise_std / self.rho.sqrt()


def evidence_scales(sums: RegressionSums, *, pooled: bool = False) -> Scales:
    """Offset, noise and prior scale under which the rewards are most likely.

    Never raises for finite sums: with fewer than three observations, or rewards that are all equal, the noise is NaN;
    noise-free rewards get a small floor; features of length 0 give rho = 1.

    Args:
        sums: running sums, see :class:`RegressionSums`.
        pooled: estimate one set of scales for all bandits of the batch.

    Example:
        >>> x = torch.eye(2).repeat(500, 1).double()
        >>> y = 7 + x @ torch.tensor([1.0, -1.0]).double() + 0.5 * torch.tensor([1.0, 1.0, -1.0, -1.0]).double().repeat(250)
        >>> sums = RegressionSums(torch.tensor(1000.0), x.sum(0), y.sum(), x.T @ x, x.T @ y, y @ y)
        >>> scales = evidence_scales(RegressionSums(*(value.double() for value in sums)))
        >>> round(scales.offset.item(), 3), round(scales.noise_std.item(), 3)
        (7.0, 0.501)
    """
    where = "evidence_scales"
    d, batch = sums.sum_x.shape[-1:], sums.num_observations.shape
    for name, value in sums._asdict().items():
        check_float_tensor(where, name, value, dtype=torch.float64)
        trailing = {"sum_x": d, "moment": d, "gram": (*d, *d)}.get(name, ())
        expected = (*batch, *trailing)
        check_shape(where, name, value.shape, value.shape == expected, str(tuple(expected)))
        check_finite(where, name, value)
    return _evidence_scales(sums, pooled=pooled)


def _evidence_scales(sums: RegressionSums, *, pooled: bool) -> Scales:
    eigenvalues, vectors = torch.linalg.eigh(sums.gram)
    e = eigenvalues.clamp(min=0)  # (*B, d); below 0 by rounding only
    zx, zy = ((vectors.mT @ value.unsqueeze(-1)).squeeze(-1) for value in (sums.sum_x, sums.moment))

    def total(value: Tensor) -> Tensor:  # (*B,) -> (*G,)
        return value.sum() if pooled else value

    n, sum_y, energy = total(sums.num_observations), total(sums.sum_y), total(sums.energy)
    length = total(e.sum(-1)) / n.clamp(min=1)
    unit = torch.where(length > 0, length, torch.ones_like(length))  # (*G,) mean squared length of the features
    steps = (_HIGH - _LOW) * _PER_DECADE + 1
    powers = torch.linspace(_LOW, _HIGH, steps, dtype=e.dtype, device=e.device).view(-1, *[1] * n.dim())  # (m, 1...)

    def fit(power: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (m, *G or 1...) -> evidence, E, c: (m, *G)
        rho = unit * 10**power
        inner = rho.view(-1, *[1] * e.dim()) if pooled else rho.unsqueeze(-1)  # broadcasts against (*B, d)
        ratio = 1 / (e + inner)

        def summed(value: Tensor) -> Tensor:  # (m, *B, d) -> (m, *G)
            return value.flatten(1).sum(-1) if pooled else value.sum(-1)

        a = (n - summed(zx.square() * ratio)).clamp(min=torch.finfo(e.dtype).tiny)
        c = (sum_y - summed(zx * zy * ratio)) / a
        error = energy - summed(zy.square() * ratio) - a * c.square()
        spread = energy - sum_y.square() / n.clamp(min=1)
        error = torch.maximum(error, NOISE_FLOOR * spread).clamp(min=torch.finfo(e.dtype).tiny)
        determinant = summed(torch.log1p(e / inner))
        evidence = -0.5 * ((n - 1) * torch.log(error) + determinant + torch.log(a))
        return evidence - 0.5 * (power / _SPREAD).square(), error, c

    evidence = fit(powers)[0]
    best = evidence.argmax(0, keepdim=True).clamp(1, steps - 2)
    before, at, after = (evidence.gather(0, best + step).squeeze(0) for step in (-1, 0, 1))
    curvature = (2 * at - before - after).clamp(min=torch.finfo(e.dtype).tiny)
    shift = (0.5 * (after - before) / curvature).clamp(-1, 1)  # vertex of the parabola through three points
    power = _LOW + (best.squeeze(0) + shift) / _PER_DECADE
    _, error, c = (value.squeeze(0) for value in fit(power.unsqueeze(0)))
    mean = sum_y / n.clamp(min=1)
    spread = energy - sum_y * mean
    known = (n >= _FEWEST) & (spread > 16 * torch.finfo(e.dtype).eps * energy)
    return Scales(
        torch.where(known, c, mean),
        torch.where(known, (error / (n - 1).clamp(min=1)).sqrt(), torch.full_like(mean, torch.nan)),
        unit * torch.where(known, 10**power, torch.ones_like(power)),
    )
