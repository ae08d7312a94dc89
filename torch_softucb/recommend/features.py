"""From an encoder's output to the features that the bandit sees: normalised, with an intercept, or as they are."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from torch_softucb.checks import check_finite, check_integer


class FeatureMap(nn.Module):
    """Optional normalisation and intercept; what it has learned is in the state.

    Args:
        dim: features that come in.
        intercept: add a constant feature; features and constant are then scaled by 1 / sqrt(2), so that a unit vector stays
            one.
        normalise: subtract the mean and divide by the standard deviation that :meth:`fit` found, and by sqrt(dim), so that
            features have length 1 or so. Until ``fit``: mean 0, deviation 1.

    Normalisation moves only when ``fit`` is called: statistics made from other features would mean nothing.

    Example:
        >>> features = FeatureMap(1, intercept=True, normalise=True)
        >>> features.fit([torch.tensor([[[1.0], [3.0]]])])
        >>> features(torch.tensor([[[3.0]]]))
        tensor([[[0.7071, 0.7071]]])
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, dim: int, *, intercept: bool = False, normalise: bool = False) -> None:
        super().__init__()
        self.dim = check_integer("FeatureMap", "dim", dim, low=1)
        self.intercept, self.normalise = intercept, normalise
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    def forward(self, values: Tensor) -> Tensor:  # (..., dim) -> (..., dim) or (..., dim + 1)
        if self.normalise:
            values = (values - self.mean.to(values.dtype)) / (self.scale.to(values.dtype) * math.sqrt(self.dim))
        if self.intercept:
            values = torch.cat((values, torch.ones_like(values[..., :1])), dim=-1) / math.sqrt(2.0)
        return values

    @torch.no_grad()
    def fit(self, batches: Iterable[Tensor]) -> None:  # each (..., dim)
        """Mean and standard deviation of every feature; one that does not vary keeps its scale."""
        count, total = 0, torch.zeros(self.dim, dtype=torch.float64, device=self.mean.device)
        squares, shift = total.clone(), None
        for values in batches:
            check_finite("FeatureMap.fit", "features", values)
            rows = values.reshape(-1, self.dim).double()
            shift = rows.mean(0) if shift is None else shift  # else squares of large means would eat the digits
            count += len(rows)
            total += (rows - shift).sum(0)
            squares += (rows - shift).square().sum(0)
        if shift is None:
            raise ValueError("FeatureMap.fit: at least one batch of features is needed, got none; nothing was changed")
        variance = squares / count - (total / count).square()
        self.mean.copy_(shift + total / count)
        self.scale.copy_(torch.where(variance > 0, variance.clamp(min=0).sqrt(), torch.ones_like(variance)))
