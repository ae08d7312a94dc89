"""From an encoder's output to the features that the bandit sees: normalised, with an intercept, or as they are."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from torch_softucb.checks import check_finite, check_integer, check_shape
from torch_softucb.recommend._checks import check_same_map


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
        self.register_buffer("mean", torch.zeros(dim, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(dim, dtype=torch.float64))

    def forward(self, values: Tensor) -> Tensor:  # (..., dim) -> (..., dim) or (..., dim + 1)
        if not (self.normalise or self.intercept):
            return values
        shrink = math.sqrt(1 + self.intercept)
        factor = 1 / (self.scale * math.sqrt(self.dim) * shrink) if self.normalise else torch.ones_like(self.scale) / shrink
        mean, factor = self.mean.to(values.dtype), factor.to(values.dtype)
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            mapped = (values - mean) * factor
            return torch.cat((mapped, torch.full_like(mapped[..., :1], 1 / shrink)), -1) if self.intercept else mapped
        out = values.new_empty(*values.shape[:-1], self.dim + self.intercept)  # the same, without copies
        torch.sub(values, mean, out=out[..., : self.dim]).mul_(factor)
        if self.intercept:
            out[..., self.dim] = 1 / shrink
        return out

    @torch.inference_mode(False)
    @torch.no_grad()
    def fit(self, batches: Iterable[Tensor]) -> None:  # each (..., dim)
        """Mean and standard deviation of every feature; one that does not vary keeps its scale."""
        count, total = 0, torch.zeros(self.dim, dtype=torch.float64, device=self.mean.device)
        squares, shift = total.clone(), None
        for values in batches:
            check_shape("FeatureMap.fit", "features", values.shape, values.shape[-1:] == (self.dim,), f"(..., {self.dim})")
            check_finite("FeatureMap.fit", "features", values)
            rows = values.reshape(-1, self.dim).double()
            if not len(rows):
                continue
            shift = rows.mean(0) if shift is None else shift  # else squares of large means would eat the digits
            count += len(rows)
            total += (rows - shift).sum(0)
            squares += (rows - shift).square().sum(0)
        if shift is None:
            raise ValueError("FeatureMap.fit: at least one batch of features is needed, got none; nothing was changed")
        variance = squares / count - (total / count).square()
        self.mean.copy_(shift + total / count)
        self.scale.copy_(torch.where(variance > 0, variance.clamp(min=0).sqrt(), torch.ones_like(variance)))

    def get_extra_state(self) -> Tensor:
        return torch.tensor([self.intercept, self.normalise])

    def set_extra_state(self, state: Tensor) -> None:
        mine, saved = (
            dict(zip(("intercept", "normalise"), s.tolist(), strict=True)) for s in (self.get_extra_state(), state)
        )
        check_same_map("FeatureMap", mine, saved)

    def _apply(self, fn, recurse=True):  # type: ignore[no-untyped-def]
        before = self.mean, self.scale
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.mean, self.scale = (value.to(self.mean.device) for value in before)  # float64 whatever the features are
        return self
