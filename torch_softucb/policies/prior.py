"""Gaussian prior of a linear model, and the change of variables that turns it into an ordinary ridge.

The model is y = c + x . theta + noise with theta ~ N(m, Sigma) and noise of standard deviation s. With a factor L,
L L^T = Sigma / s^2, whitened features x' = L^T x and centred rewards y' = y - c - x . m follow y' = x' . eta + noise with
eta ~ N(0, s^2 I). That is ridge regression with alpha = 1: V' = I + sum x' x'^T. In the original coordinates
V = V_0 + sum x x^T and b = V_0 m + sum x (y - c), where V_0 = s^2 Sigma^-1.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from torch_softucb.checks import (
    check_finite,
    check_float_tensor,
    check_integer,
    check_number,
    check_shape,
    values_readable,
)

_SYMMETRY = 1e-8  # relative to the scale of the entries
_SINGULAR = 1e-12  # smallest eigenvalue of the correlation matrix: below it the whitened features have no correct digits


class PriorArrays(NamedTuple):
    """A prior as numpy arrays, for decisions and updates of a single bandit.

    Attributes:
        mean: ``(d,)`` m.
        factor: ``(d, d)`` L.
        offset: c.
    """

    mean: NDArray[np.float64]  # (d,)
    factor: NDArray[np.float64]  # (d, d)
    offset: float


@dataclass(frozen=True, eq=False, repr=False)
class GaussianPrior:
    """What is known about a bandit before its first reward: y = c + x . theta + noise, theta ~ N(mean, covariance).

    Every policy accepts it as ``prior=``. Without one, theta starts at 0 with V = ridge_alpha I. :meth:`ridge`,
    :meth:`from_linear` and :func:`~torch_softucb.fit_prior` build one.

    Attributes:
        mean: ``(d,)`` mean of theta, float64.
        covariance: ``(d, d)`` covariance of theta, float64, symmetric and positive definite.
        noise_std: standard deviation of the reward noise.
        offset: c, the mean reward at x = 0.
        factor: ``(d, d)`` lower triangular, factor factor^T = covariance / noise_std^2.

    Example:
        >>> from torch_softucb import EpsilonGreedy
        >>> prior = GaussianPrior(torch.tensor([0.5, 0.1]), 0.04 * torch.eye(2), noise_std=0.2, offset=3.0)
        >>> policy = EpsilonGreedy(2, epsilon=0.0, prior=prior)
        >>> policy(torch.eye(2)).mu_hat  # before the first reward
        tensor([3.5000, 3.1000])
        >>> policy.update(torch.tensor([1.0, 0.0]), torch.tensor(3.1))
        >>> policy(torch.eye(2)).mu_hat  # half way from 3.5 to 3.1: prior and noise are equally wide
        tensor([3.3000, 3.1000])
    """

    mean: Tensor  # (d,)
    covariance: Tensor  # (d, d)
    noise_std: float = field(default=1.0, kw_only=True)
    offset: float = field(default=0.0, kw_only=True)
    factor: Tensor = field(init=False)  # (d, d)

    def __post_init__(self) -> None:
        where = "GaussianPrior"
        check_float_tensor(where, "mean", self.mean)
        check_float_tensor(where, "covariance", self.covariance, device=self.mean.device)
        check_shape(where, "mean", self.mean.shape, self.mean.dim() == 1 and len(self.mean) > 0, "(d,)")
        square = (self.dim, self.dim)
        check_shape(where, "covariance", self.covariance.shape, self.covariance.shape == square, f"{square}, as mean has")
        check_finite(where, "mean", self.mean)
        check_finite(where, "covariance", self.covariance)
        own = {
            "noise_std": check_number(where, "noise_std", self.noise_std, low=0.0, open_low=True),
            "offset": check_number(where, "offset", self.offset, low=-float("inf"), open_low=True),
            "mean": self.mean.detach().double().clone(),
            "covariance": _symmetric(where, self.covariance.detach().double()),
        }
        for name, value in own.items():
            object.__setattr__(self, name, value)
        _check_definite(where, self.covariance)
        object.__setattr__(self, "factor", torch.linalg.cholesky_ex(self.covariance)[0] / self.noise_std)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GaussianPrior):
            return NotImplemented
        same = self.noise_std == other.noise_std and self.offset == other.offset
        return same and torch.equal(self.mean, other.mean) and torch.equal(self.covariance, other.covariance)

    def __hash__(self) -> int:
        return hash((self.dim, self.noise_std, self.offset))

    def __repr__(self) -> str:
        return f"GaussianPrior(dim={self.dim}, noise_std={self.noise_std:.6g}, offset={self.offset:.6g})"

    @property
    def dim(self) -> int:
        """Number of features d."""
        return len(self.mean)

    @cached_property
    def precision(self) -> Tensor:  # (d, d)
        """V_0 = noise_std^2 covariance^-1: what the prior counts for, in observations."""
        eye = torch.eye(self.dim, dtype=torch.float64, device=self.mean.device)
        inverse: Tensor = torch.linalg.solve_triangular(self.factor, eye, upper=False)
        return inverse.mT @ inverse

    @cached_property
    def arrays(self) -> PriorArrays:
        """The prior as numpy arrays."""
        return PriorArrays(self.mean.numpy(), self.factor.numpy(), self.offset)

    def to(self, device: torch.device | str) -> "GaussianPrior":
        """Return the prior on another device."""
        if torch.device(device) == self.mean.device:
            return self
        mean, covariance = self.mean.to(device), self.covariance.to(device)
        return GaussianPrior(mean, covariance, noise_std=self.noise_std, offset=self.offset)

    def whiten(self, x: Tensor) -> Tensor:  # (*N, d) -> (*N, d)
        """Return x @ factor, in the dtype of x: features of which theta has covariance noise_std^2 I.

        Example:
            >>> GaussianPrior(torch.zeros(1), torch.tensor([[4.0]])).whiten(torch.tensor([[3.0]]))
            tensor([[6.]])
        """
        return x @ self.factor.to(x.dtype)

    def predict(self, x: Tensor) -> Tensor:  # (*N, d) -> (*N,)
        """Return x . mean, in the dtype of x: the mean reward relative to ``offset``.

        Example:
            >>> GaussianPrior(torch.ones(2), torch.eye(2), offset=5.0).predict(torch.tensor([1.0, 2.0]))
            tensor(3.)
        """
        return x @ self.mean.to(x.dtype)

    def residual(self, x: Tensor, reward: Tensor) -> Tensor:  # (*N, d), (*N,) -> (*N,)
        """Return the rewards relative to what the prior predicts.

        Example:
            >>> GaussianPrior(torch.ones(2), torch.eye(2), offset=5.0).residual(torch.ones(1, 2), torch.tensor([9.0]))
            tensor([2.])
        """
        return reward - self.offset - self.predict(x)

    @classmethod
    def ridge(cls, dim: int, alpha: float = 1.0) -> "GaussianPrior":
        """Return the prior that ``ridge_alpha`` stands for: mean 0 and V_0 = alpha I.

        Args:
            dim: number of features d.
            alpha: ridge weight.

        Example:
            >>> GaussianPrior.ridge(2, 4.0).precision
            tensor([[4., 0.],
                    [0., 4.]], dtype=torch.float64)
        """
        where = "GaussianPrior.ridge"
        alpha = check_number(where, "alpha", alpha, low=0.0, open_low=True)
        eye = torch.eye(check_integer(where, "dim", dim, low=1), dtype=torch.float64)
        return cls(torch.zeros_like(eye[0]), eye / alpha)

    @classmethod
    def from_linear(
        cls,
        layer: nn.Linear,
        *,
        strength: float,
        noise_std: float,
        features: Tensor | None = None,  # (n, d)
    ) -> "GaussianPrior":
        """Return a prior around the last layer of a trained model: its weights are the mean, its bias is the offset.

        Args:
            layer: linear layer with one output.
            strength: how many observations of a bandit the model counts for.
            noise_std: standard deviation of the rewards around the model's predictions.
            features: inputs of the layer on typical data; V_0 is then ``strength`` times the mean of x x^T, otherwise
                ``strength`` times I.

        Example:
            >>> layer = torch.nn.Linear(3, 1)
            >>> prior = GaussianPrior.from_linear(layer, strength=10.0, noise_std=0.5)
            >>> bool(prior.offset == layer.bias), prior.precision.diagonal().round()
            (True, tensor([10., 10., 10.], dtype=torch.float64))
        """
        where = "GaussianPrior.from_linear"
        if not isinstance(layer, nn.Linear) or layer.out_features != 1:
            got = f"{layer.out_features} outputs" if isinstance(layer, nn.Linear) else type(layer).__name__
            raise ValueError(f"{where}: layer must be an nn.Linear with one output, got {got}")
        strength = check_number(where, "strength", strength, low=0.0, open_low=True)
        noise = check_number(where, "noise_std", noise_std, low=0.0, open_low=True)
        mean = layer.weight.detach().double()[0]
        second = torch.eye(len(mean), dtype=torch.float64, device=mean.device)
        if features is not None:
            check_float_tensor(where, "features", features, device=mean.device)
            fits = features.dim() == 2 and features.shape[0] > 0 and features.shape[1] == len(mean)
            check_shape(where, "features", features.shape, fits, f"(n, {len(mean)}), the inputs of the layer")
            check_finite(where, "features", features)
            x = features.detach().double()
            second = x.mT @ x / len(x)
            _check_definite(where, second, name="the mean of x x^T over features", fix="use more, or more varied, features")
        offset = 0.0 if layer.bias is None else float(layer.bias.detach())
        covariance = noise**2 / strength * torch.linalg.inv(second)
        return cls(mean, (covariance + covariance.mT) / 2, noise_std=noise, offset=offset)


def _symmetric(where: str, matrix: Tensor) -> Tensor:  # (d, d) -> (d, d)
    """Return the matrix without the rounding errors of its symmetry; raise if it is not symmetric."""
    if values_readable(matrix):
        size = matrix.diagonal().abs().sqrt()
        if bool(((matrix - matrix.mT).abs() > _SYMMETRY * (size.unsqueeze(-1) * size)).any()):
            raise ValueError(f"{where}: covariance must be symmetric, got a matrix that is not; use (C + C.T) / 2")
    return (matrix + matrix.mT) / 2


def _check_definite(
    where: str,
    matrix: Tensor,  # (d, d)
    *,
    name: str = "covariance",
    fix: str = "add a small multiple of the identity, or use fit_prior, which shrinks the covariance",
) -> None:
    """Raise unless a matrix is positive definite with room for rounding, whatever the units of its entries."""
    if not values_readable(matrix):
        return
    size = matrix.diagonal().clamp(min=0).sqrt()
    least = 0.0
    if bool((size > 0).all()):
        least = float(torch.linalg.eigvalsh(matrix / size.unsqueeze(-1) / size).min())
    if not least > _SINGULAR:
        raise ValueError(
            f"{where}: {name} must be positive definite, got one whose correlation matrix has the eigenvalue {least:.1e}; "
            f"{fix}"
        )
