r"""Bayesian linear regression in which noise and prior scale maximise the evidence.

The model is y = x . theta + noise with noise ~ N(0, s^2) and theta ~ N(0, p^2 I). The sums X^T X, X^T y, y^T y and n are
sufficient statistics for s, p and theta. In the eigenvectors of X^T X (eigenvalues e, X^T y -> z) and with
rho = s^2 / p^2, the log evidence is largest at s^2 = E / n, E = y^T y - sum z^2 / (e + rho). There it is
-(n log(2 pi E / n) + n + sum log(e / rho + 1)) / 2, a function of rho alone. Its maximum is a fixed point of the
iteration in D. MacKay: Bayesian interpolation, Neural Computation 4, 1992. Unlike that iteration, a search over rho always
converges and cannot end at a lower local maximum.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.functional._checks import check_evidence, check_regression_sums

_LOW, _HIGH = -18.0, 6.0  # log10 of rho over the largest eigenvalue: from noise below rounding to no effect at all
_POINTS, _ZOOMS = 129, 7


class LinearPosterior(NamedTuple):
    """Posterior theta ~ N(mean, root root^T) of each bandit, with noise and prior common to all. All float64.

    Attributes:
        mean: ``(*B, d)`` posterior mean.
        root: ``(*B, d, d)`` a square root of the posterior covariance.
        noise_std: ``()`` standard deviation of the reward noise.
        prior_std: ``()`` prior standard deviation of each component of theta.
        log_evidence: ``()`` log-probability of the data.
    """

    mean: Tensor  # (*B, d)
    root: Tensor  # (*B, d, d)
    noise_std: Tensor  # ()
    prior_std: Tensor  # ()
    log_evidence: Tensor  # ()


def bayesian_ridge(
    gram: Tensor,  # (*B, d, d)
    moment: Tensor,  # (*B, d)
    energy: Tensor,  # (*B,)
    count: Tensor,  # (*B,)
) -> LinearPosterior:
    """Posterior of theta under the noise and the prior that make the data most likely.

    The bandits of a batch have one theta each, drawn from a common prior: those with little data borrow strength from the
    others. Only sums are needed, no pass over the data.

    Args:
        gram: X^T X.
        moment: X^T y.
        energy: y^T y.
        count: number of observations n.

    Raises:
        ValueError: the sums are inconsistent, or the rewards do not depend on x.
        NumericalError: the rewards follow x without noise.

    Example:
        >>> x = torch.eye(2).repeat(500, 1)
        >>> y = x @ torch.tensor([1.0, -1.0]) + 0.5 * torch.tensor([1.0, 1.0, -1.0, -1.0]).repeat(250)  # noise of size 0.5
        >>> posterior = bayesian_ridge(x.T @ x, x.T @ y, y @ y, torch.tensor(1000))
        >>> posterior.mean, posterior.noise_std
        (tensor([ 0.9995, -0.9995], dtype=torch.float64), tensor(0.5005, dtype=torch.float64))
        >>> posterior.root @ posterior.root.T * 500 / 0.25  # 0.25 / 500 each, except for the prior
        tensor([[1.0015, 0.0000],
                [0.0000, 1.0015]], dtype=torch.float64)
    """
    where = "bayesian_ridge"
    check_regression_sums(where, gram, moment, energy, count)
    gram, moment, energy, count = (value.double() for value in (gram, moment, energy, count))
    eigenvalues, vectors = torch.linalg.eigh(gram)
    n, total, largest = float(count.sum()), float(energy.sum()), float(eigenvalues.max())
    e = eigenvalues.clamp(min=0)  # gram was checked: an eigenvalue is below 0 by rounding only
    z = (vectors.mT @ moment.unsqueeze(-1)).squeeze(-1)

    def unexplained(rho: Tensor) -> Tensor:  # (m,) -> (m,) E
        rho = rho.view(-1, *[1] * e.dim())
        error: Tensor = total - (z.square() / (e + rho)).flatten(1).sum(-1)
        return error

    def log_evidence(rho: Tensor) -> Tensor:  # (m,) -> (m,)
        error = unexplained(rho).clamp(min=total * torch.finfo(e.dtype).eps)  # check_evidence rejects a maximum there
        shrunk = torch.log(e / rho.view(-1, *[1] * e.dim()) + 1).flatten(1).sum(-1)
        return -(n * torch.log(2 * math.pi * error / n) + n + shrunk) / 2

    low, high = _LOW, _HIGH
    for _ in range(_ZOOMS):
        powers = torch.linspace(low, high, _POINTS, dtype=e.dtype, device=e.device)
        best = int(log_evidence(largest * 10**powers).argmax())
        low, high = float(powers[max(best - 1, 0)]), float(powers[min(best + 1, _POINTS - 1)])
    rho = (largest * 10 ** powers[best]).reshape(1)
    variance = unexplained(rho).squeeze(0) / n
    check_evidence(where, unexplained=float(variance) * n / total, no_effect=float(powers[best]) >= _HIGH - 0.1)
    mean = (vectors @ (z / (e + rho)).unsqueeze(-1)).squeeze(-1)
    root = vectors * (variance / (e + rho)).sqrt().unsqueeze(-2)
    return LinearPosterior(mean, root, variance.sqrt(), (variance / rho.squeeze(0)).sqrt(), log_evidence(rho).squeeze(0))
