r"""What a log says of theta and of the noise: Bayesian linear regression whose two scales are found by the evidence.

y = x . theta + noise, noise ~ N(0, s^2), theta ~ N(0, p^2 I). The sums X^T X, X^T y, y^T y and n say everything that the
data say of s, p and theta. In X^T X's eigenvectors (eigenvalues e, X^T y -> z) and with rho = s^2 / p^2, the log evidence is
largest at s^2 = E / n, E = y^T y - sum z^2 / (e + rho), where it is -(n log(2 pi E / n) + n + sum log(e / rho + 1)) / 2: a
function of rho alone. Its maximum is a fixed point of D. MacKay: Bayesian interpolation, Neural Computation 4, 1992; looked
for on a line, it can neither fail to converge nor be a lower peak.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.functional._checks import check_evidence, check_regression_sums

_LOW, _HIGH = -18.0, 6.0  # rho over the largest eigenvalue, as powers of ten: noise below rounding, no effect at all
_POINTS, _ZOOMS = 129, 7


class LinearPosterior(NamedTuple):
    """theta ~ N(mean, root root^T), one for every bandit; noise and prior are common to all. All float64."""

    mean: Tensor  # (*B, d)
    root: Tensor  # (*B, d, d)
    noise_std: Tensor  # ()
    prior_std: Tensor  # () of a component of theta
    log_evidence: Tensor  # ()


def bayesian_ridge(
    gram: Tensor,  # (*B, d, d) X^T X
    moment: Tensor,  # (*B, d) X^T y
    energy: Tensor,  # (*B,) y^T y
    count: Tensor,  # (*B,) n
) -> LinearPosterior:
    """Posterior of theta, with the noise and the prior that make the data most likely; no pass over the data.

    Bandits of a batch have a theta each, drawn from one prior: those with little data lean on what the others show.

    Example:
        >>> x = torch.eye(2).repeat(500, 1)
        >>> y = x @ torch.tensor([1.0, -1.0]) + 0.5 * torch.tensor([1.0, 1.0, -1.0, -1.0]).repeat(250)  # noise of size 0.5
        >>> found = bayesian_ridge(x.T @ x, x.T @ y, y @ y, torch.tensor(1000))
        >>> found.mean, found.noise_std
        (tensor([ 0.9995, -0.9995], dtype=torch.float64), tensor(0.5005, dtype=torch.float64))
        >>> found.root @ found.root.T * 500 / 0.25  # 0.25 / 500 each, but for the prior
        tensor([[1.0015, 0.0000],
                [0.0000, 1.0015]], dtype=torch.float64)
    """
    where = "bayesian_ridge"
    check_regression_sums(where, gram, moment, energy, count)
    gram, moment, energy, count = (value.double() for value in (gram, moment, energy, count))
    eigenvalues, vectors = torch.linalg.eigh(gram)
    n, total, largest = float(count.sum()), float(energy.sum()), float(eigenvalues.max())
    e = eigenvalues.clamp(min=0)  # of a matrix that was checked: below 0 by rounding only
    z = (vectors.mT @ moment.unsqueeze(-1)).squeeze(-1)

    def left(rho: Tensor) -> Tensor:  # (m,) -> (m,) E
        rho = rho.view(-1, *[1] * e.dim())
        error: Tensor = total - (z.square() / (e + rho)).flatten(1).sum(-1)
        return error

    def log_evidence(rho: Tensor) -> Tensor:  # (m,) -> (m,)
        error = left(rho).clamp(min=total * torch.finfo(e.dtype).eps)  # a maximum down there is refused below
        shrunk = torch.log(e / rho.view(-1, *[1] * e.dim()) + 1).flatten(1).sum(-1)
        return -(n * torch.log(2 * math.pi * error / n) + n + shrunk) / 2

    low, high = _LOW, _HIGH
    for _ in range(_ZOOMS):
        powers = torch.linspace(low, high, _POINTS, dtype=e.dtype, device=e.device)
        best = int(log_evidence(largest * 10**powers).argmax())
        low, high = float(powers[max(best - 1, 0)]), float(powers[min(best + 1, _POINTS - 1)])
    rho = (largest * 10 ** powers[best]).reshape(1)
    variance = left(rho).squeeze(0) / n
    check_evidence(where, share=float(variance) * n / total, no_effect=float(powers[best]) >= _HIGH - 0.1)
    mean = (vectors @ (z / (e + rho)).unsqueeze(-1)).squeeze(-1)
    root = vectors * (variance / (e + rho)).sqrt().unsqueeze(-2)
    return LinearPosterior(mean, root, variance.sqrt(), (variance / rho.squeeze(0)).sqrt(), log_evidence(rho).squeeze(0))
