r"""Offset, noise and prior scale of a linear model, estimated from running sums.

The model is y = c + x . theta + noise, with noise ~ N(0, s^2), theta ~ N(0, p^2 I) and a free offset c. With
rho = s^2 / p^2 and V = rho I + sum x x^T, the offset and the noise that make the rewards most likely have closed forms,

    c = (sum y - sum_x . V^-1 sum_xy) / a,     a = n - sum_x . V^-1 sum_x,
    s^2 = E / (n - 1),                         E = sum y^2 - sum_xy . V^-1 sum_xy - a c^2,

and what is left is one number, rho. Its log evidence, with c integrated out, is
-((n - 1) log E + log det(V / rho) + log a) / 2. It is evaluated on two grids of rho over the mean squared length of the
features, so that neither the unit of the rewards nor that of the features matters, together with a weak prior around 1.
The estimate is the posterior mean of log rho minus three quarters of a posterior deviation: with few observations the
evidence is flat, its maximum arbitrary, and a rho that is too large ends exploration too early.
Bandits whose rewards have the same unit (users of one product, arms without features) can share the three numbers: their
terms are summed.

The offset is not known exactly: its variance is s^2 / a, and the mean c + x . theta of an arm moves by 1 - x . V^-1 sum_x
with it. So the squared width of an arm, over s^2, is x . V^-1 x + (1 - x . V^-1 sum_x)^2 / a.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_finite, check_float_tensor, check_shape

LOW, HIGH = -5, 4  # powers of 10 of rho over the mean squared feature length: a coarse grid, one point per decade
FINE = 13  # points of a second grid around the posterior mean on the first
SPREAD = 1.5  # decades: Gaussian prior of log10 rho around "noise as large as the linear effect"
CAUTION = 0.75  # posterior deviations of log10 rho by which the estimate is below the mean: a small rho explores more
NOISE_FLOOR = 1e-3  # smallest noise variance, as a share of the variance of the rewards
FEWEST = 3  # observations before the noise can be estimated
ALL_EQUAL = 2.0**-48  # rewards whose squared deviations are a smaller share of their squares count as equal


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
    """Scales of each bandit, or of each group of bandits that share them; ``*G`` is ``*B``, without its last dim if pooled.

    Attributes:
        offset: ``(*G,)`` offset c, in the unit of the rewards; the mean reward where the noise is not known yet.
        noise_std: ``(*G,)`` noise standard deviation s, in the unit of the rewards; NaN where it is not known yet.
        rho: ``(*G,)`` s^2 / p^2, in the squared unit of the features.
        explained: ``(*G,)`` share of the variance of the rewards that the features explain, in [0, 1); 0 where the noise is
            not known yet.
        log_rho: ``(*G,)`` log10 of rho over the mean squared length of the features.
        log_det: ``(*G,)`` log det(V / rho) / d, averaged over the bandits of a group: what has been learned about theta.
        shrinkage: ``(*G,)`` trace(rho V^-1) / d, averaged likewise: squared width over its value before any observation.
        offset_variance: ``(*G,)`` 1 / a, the variance of the offset over that of the noise; 0 without observations.
    """

    offset: Tensor  # (*G,)
    noise_std: Tensor  # (*G,)
    rho: Tensor  # (*G,)
    explained: Tensor  # (*G,)
    log_rho: Tensor  # (*G,)
    log_det: Tensor  # (*G,)
    shrinkage: Tensor  # (*G,)
    offset_variance: Tensor  # (*G,)

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
        pooled: estimate one set of scales for all bandits along the last batch dimension.

    Example:
        >>> x = torch.eye(2).repeat(500, 1).double()
        >>> y = 7 + x @ torch.tensor([1.0, -1.0]).double() + 0.5 * torch.tensor([1.0, 1.0, -1.0, -1.0]).double().repeat(250)
        >>> sums = RegressionSums(torch.tensor(1000.0), x.sum(0), y.sum(), x.T @ x, x.T @ y, y @ y)
        >>> scales = evidence_scales(RegressionSums(*(value.double() for value in sums)))
        >>> round(scales.offset.item(), 3), round(scales.noise_std.item(), 3), round(scales.explained.item(), 2)
        (7.0, 0.5, 0.8)
    """
    where = "evidence_scales"
    batch = sums.num_observations.shape
    if pooled:
        check_shape(where, "num_observations", batch, len(batch) > 0, "(*G, n) if the scales are pooled")
    check_sums(where, sums)
    return _evidence_scales(sums, pooled=pooled)


def check_sums(where: str, sums: RegressionSums) -> None:
    """Check that sums are float64, finite, and of one batch of bandits."""
    d, batch = sums.sum_x.shape[-1:], sums.num_observations.shape
    for name, value in sums._asdict().items():
        check_float_tensor(where, name, value, dtype=torch.float64)
        expected = (*batch, *{"sum_x": d, "moment": d, "gram": (*d, *d)}.get(name, ()))
        check_shape(where, name, value.shape, value.shape == expected, str(tuple(expected)))
        check_finite(where, name, value)


def _evidence_scales(sums: RegressionSums, *, pooled: bool) -> Scales:
    eigenvalues, vectors = torch.linalg.eigh(sums.gram)
    e = eigenvalues.clamp(min=0)  # (*B, d); below 0 by rounding only
    zx, zy = ((vectors.mT @ value.unsqueeze(-1)).squeeze(-1) for value in (sums.sum_x, sums.moment))
    n, sum_y, energy = sums.num_observations, sums.sum_y, sums.energy
    if pooled:  # the eigenvalues of all bandits of a group side by side: (*G, n, d) -> (*G, n d)
        e, zx, zy = (value.flatten(-2) for value in (e, zx, zy))
        n, sum_y, energy = (value.sum(-1) for value in (n, sum_y, energy))
    tiny, once = torch.finfo(e.dtype).tiny, n.clamp(min=1)
    length = e.sum(-1) / once
    unit = torch.where(length > 0, length, torch.ones_like(length))  # (*G,) mean squared length of the features
    mean = sum_y / once
    spread = energy - sum_y * mean

    def fit(power: Tensor) -> tuple[Tensor, ...]:  # (m, *G or 1...) -> evidence, E, c, rho, a: (m, *G)
        rho = unit * 10**power
        inner = rho.unsqueeze(-1)
        ratio = 1 / (e + inner)  # (m, *G, d)
        a = (n - (zx.square() * ratio).sum(-1)).clamp(min=tiny)
        c = (sum_y - (zx * zy * ratio).sum(-1)) / a
        error = energy - (zy.square() * ratio).sum(-1) - a * c.square()
        error = torch.maximum(error, NOISE_FLOOR * spread).clamp(min=tiny)
        determinant = torch.log1p(e / inner).sum(-1)
        evidence = -0.5 * ((n - 1) * torch.log(error) + determinant + torch.log(a))
        return evidence - 0.5 * (power / SPREAD).square(), error, c, rho, a

    def posterior(powers: Tensor) -> tuple[Tensor, Tensor]:  # (m, *G or 1...) -> mean and deviation of log10 rho: (*G,)
        weights = torch.softmax(fit(powers)[0], dim=0)
        average = (weights * powers).sum(0)
        return average, (weights * (powers - average).square()).sum(0).sqrt()

    like = {"dtype": e.dtype, "device": e.device}
    coarse = torch.linspace(LOW, HIGH, HIGH - LOW + 1, **like).view(-1, *[1] * n.dim())  # (m, 1...)
    average, deviation = posterior(coarse)
    fine = torch.linspace(-1, 1, FINE, **like).view(-1, *[1] * n.dim())
    average, deviation = posterior(average + (1 + 2 * deviation) * fine)
    known = (n >= FEWEST) & (spread > ALL_EQUAL * energy)
    power = torch.where(known, average - CAUTION * deviation, torch.zeros_like(average))
    _, error, c, rho, a = (value.squeeze(0) for value in fit(power.unsqueeze(0)))
    inner = rho.unsqueeze(-1)
    return Scales(
        offset=torch.where(known, c, mean),
        noise_std=torch.where(known, (error / (n - 1).clamp(min=1)).sqrt(), torch.full_like(mean, torch.nan)),
        rho=rho,
        explained=torch.where(known, (1 - error / spread.clamp(min=tiny)).clamp(min=0), torch.zeros_like(mean)),
        log_rho=power,
        log_det=torch.log1p(e / inner).mean(-1),
        shrinkage=(inner / (e + inner)).mean(-1),
        offset_variance=torch.where(n > 0, 1 / a, torch.zeros_like(a)),
    )


def _offset_width(
    arms: Tensor,  # (K, d) or (*B, K, d)
    offset_direction: Tensor,  # (*B, d), V^-1 sum_x
    offset_variance: Tensor,  # (*B,)
) -> Tensor:  # (*B, K)
    """Return the part of each width, over the noise, that comes from the offset; it may be negative."""
    slope = 1 - (arms @ offset_direction.unsqueeze(-1)).squeeze(-1)  # of an arm's mean with respect to the offset
    return slope * offset_variance.sqrt().unsqueeze(-1)


def _joint_width(width: Tensor, offset_width: Tensor) -> Tensor:  # (*B, K), (*B, K) -> (*B, K)
    """Return the width of c + x . theta, given that of x . theta; the gradient is 0 where both parts are 0."""
    joint: Tensor = torch.linalg.vector_norm(torch.stack((width, offset_width)), dim=0)
    return joint
