"""One bandit, one set of arms, no gradient, on the CPU: a request's decision, where torch's dispatch costs more than the
arithmetic. The same formulas as in functional/, in numpy and float64; tests/policies/test_single.py holds them together.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.checks import values_readable
from torch_softucb.functional.sampling import draw_one
from torch_softucb.policies.decision import Decision

Array = NDArray[np.float64]
MOST = 2**14  # features in all: beyond, the arithmetic counts and torch is as fast


class SoftChoice(NamedTuple):
    probs: Array
    score: Array  # S
    gamma: float  # behind probs
    fresh: float  # of this round


def applies(row: Tensor, features: Tensor, dims: int) -> bool:
    """Is this one bandit, and features of so many dims, that numpy may see?"""
    if row.dim() != 1 or features.dim() != dims or features.numel() > MOST or not row.is_cpu or features.requires_grad:
        return False
    return values_readable(features)


def tensor(values: Array | float, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float32 if dtype == torch.float32 else np.float64))


class OneDecision(Decision):
    """A decision of one bandit; its tensors are made when they are asked for, and most requests ask for none."""

    _dtype: torch.dtype
    _values: dict[str, Any]

    def __init__(self, dtype: torch.dtype, mask: Tensor | None, **values: Array | float) -> None:
        self.__dict__.update(mask=mask, _dtype=dtype, _values=values)

    def __getattr__(self, name: str) -> Tensor:  # a field that was not asked for yet
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        made = self.__dict__[name] = tensor(values[name], self._dtype)
        return made

    # fields with a default are found on the class before __getattr__ is asked
    beta = property(lambda self: self._made("beta"))
    gamma = property(lambda self: self._made("gamma"))
    next_gamma = property(lambda self: self._made("next_gamma"))

    def _made(self, name: str) -> Tensor:
        kept: Tensor | None = self.__dict__.get(f"_{name}")
        if kept is None:
            kept = self.__dict__[f"_{name}"] = tensor(self._values[name], self._dtype)
        return kept

    def with_request(self, *, features: Tensor, bandit: Tensor | None) -> Self:
        """Return the same decision together with the request that it answers."""
        answered = type(self)(self._dtype, self.mask, **self._values)
        answered.__dict__.update(features=features, bandit=bandit)
        return answered

    @property
    def batch_shape(self) -> torch.Size:
        return _SINGLE

    @property
    def num_arms(self) -> int:
        return len(self._values["probs"])

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        device = None if generator is None else generator.device
        return self.pick(torch.rand((), generator=generator, dtype=self._dtype, device=device))

    def pick(self, noise: Tensor) -> Tensor:
        return draw_one(self._values["probs"], noise.item())


_SINGLE = torch.Size(())


def estimate(row: Tensor, arms: Tensor, dim: int) -> tuple[Array, Array]:
    """functional.ridge_estimate."""
    numbers, square = row.numpy(), dim * dim
    root, b = numbers[square : 2 * square].reshape(dim, dim), numbers[2 * square : 2 * square + dim]
    w = arms.numpy().astype(np.float64) @ root
    return w @ (b @ root), np.sqrt(np.vecdot(w, w))


def soft_choice(
    mu_hat: Array,
    width: Array,
    beta: float,
    *,
    delta: float,
    coldness: str,
    smoothing: float,
    carried: float,
    mask: NDArray[np.bool_] | None,
) -> SoftChoice:
    """functional.soft_ucb_index, coldness or smooth_coldness, and arm_probabilities: Eqs. 6-9."""
    radius = beta * width
    lower = mu_hat - radius
    index = mu_hat + radius
    index -= np.maximum.reduce(lower if mask is None else lower[mask])
    allowed = index if mask is None else index[mask]
    top = float(np.maximum.reduce(allowed))
    odds = delta / (1 - delta)
    fresh = 0.0
    if coldness == "smooth" and top > 0:
        fresh = math.log1p(float(np.exp(np.maximum(allowed, 0) / (-smoothing * top)).sum()) * odds) / top
    elif coldness != "smooth" and top > 0:
        num_low = int(np.count_nonzero(allowed < 0))
        fresh = math.log(num_low * odds) / top if num_low else 0.0  # Eq. 9
    gamma = carried if coldness == "lagged" else fresh
    weights = np.exp(gamma * (index - top))
    if mask is not None:
        weights *= mask
    return SoftChoice(weights / np.add.reduce(weights), index, gamma, fresh)


def observe(row: Array, x: Array, reward: float, gamma: float) -> Array:
    """statistics.observe_one, between two refreshes: the row after one more observation."""
    new, dim, square = row.copy(), len(x), len(x) ** 2
    V, root, b = (
        new[:square].reshape(dim, dim),
        new[square : 2 * square].reshape(dim, dim),
        new[2 * square : 2 * square + dim],
    )
    V += x[:, None] * x
    w = x @ root
    s = 1.0 + float(w @ w)
    root -= (root @ w)[:, None] * (w / (s + math.sqrt(s)))  # functional.ridge_root_update
    b += x * reward
    new[-2] += 1.0
    new[-1] = gamma
    return new
