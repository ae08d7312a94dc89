"""Map an encoder's output to the features of the bandit: normalised, with an intercept, or unchanged."""

import math
from collections.abc import Iterable
from operator import itemgetter

import torch
from torch import Tensor, nn

from torch_softucb.checks import check_finite, check_integer, check_shape

_both = itemgetter("mean", "scale")


class FeatureMap(nn.Module):
    """Module that normalises features and appends an intercept; both are optional.

    The normalisation changes only when :meth:`fit` is called, because statistics collected from other features would
    become meaningless. It is part of ``state_dict``, in float64.

    Args:
        dim: number of features of the input.
        intercept: append a constant feature. Features and constant are then scaled by 1 / sqrt(2), so that a unit vector
            keeps its length.
        normalise: subtract the mean and divide by the standard deviation found by :meth:`fit`, and by sqrt(dim), so that
            feature vectors have a length of about 1. Before ``fit``, the mean is 0 and the deviation 1.

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
        """Return the features; the input itself if there is neither normalisation nor intercept."""
        if not (self.normalise or self.intercept):
            return values
        # one call reads both, so that they belong together also while another thread calibrates
        mean, scale = (self.mean, self.scale) if torch.compiler.is_compiling() else _both(self._buffers)
        shrink = math.sqrt(1 + self.intercept)
        factor = 1 / (scale * math.sqrt(self.dim) * shrink) if self.normalise else torch.ones_like(scale) / shrink
        # pad before the arithmetic: appending the constant afterwards copies everything again and doubles the time
        mapped = nn.functional.pad(values, (0, 1), value=1 / shrink) if self.intercept else values.clone()
        mapped[..., : self.dim].sub_(mean.to(values.dtype)).mul_(factor.to(values.dtype))
        return mapped

    def fit(self, batches: Iterable[Tensor]) -> None:  # each (..., dim)
        """Estimate the mean and standard deviation of each feature; a constant feature gets the deviation 1.

        Raises:
            ValueError: if there is no row at all; the map is then unchanged.
        """
        self._buffers.update(self.fitted(batches))

    @torch.inference_mode(False)
    @torch.no_grad()
    def fitted(self, batches: Iterable[Tensor]) -> dict[str, Tensor | None]:  # each (..., dim) -> (dim,), (dim,)
        """Return the ``mean`` and ``scale`` that :meth:`fit` would set; changes nothing."""
        count, total = 0, torch.zeros(self.dim, dtype=torch.float64, device=self.mean.device)
        squares, shift = total.clone(), None
        for values in batches:
            check_shape("FeatureMap.fit", "features", values.shape, values.shape[-1:] == (self.dim,), f"(..., {self.dim})")
            check_finite("FeatureMap.fit", "features", values)
            rows = values.reshape(-1, self.dim).double()
            if not len(rows):
                continue
            shift = rows.mean(0) if shift is None else shift  # squares of a large mean would lose the variance's digits
            count += len(rows)
            total += (rows - shift).sum(0)
            squares += (rows - shift).square().sum(0)
        if shift is None:
            raise ValueError("FeatureMap.fit: at least one batch of features is needed, got none; nothing was changed")
        variance = squares / count - (total / count).square()
        scale = torch.where(variance > 0, variance.clamp(min=0).sqrt(), torch.ones_like(variance))
        return {"mean": shift + total / count, "scale": scale}

    def get_extra_state(self) -> Tensor:
        """Return the settings, so that a state is not loaded into a map with other settings."""
        return torch.tensor([self.intercept, self.normalise])

    def set_extra_state(self, state: Tensor) -> None:
        """Check that a saved state has the settings of this map."""
        own, saved = (
            dict(zip(("intercept", "normalise"), s.tolist(), strict=True)) for s in (self.get_extra_state(), state)
        )
        if own != saved:
            raise ValueError(
                f"FeatureMap: the state is of a head with {saved}, but this head has {own}; "
                "construct the head with the same settings"
            )

    def _apply(self, fn, recurse=True):  # type: ignore[no-untyped-def]
        before = self.mean, self.scale
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.mean, self.scale = (value.to(self.mean.device) for value in before)  # stay float64 under .float() or .half()
        return self
