"""Decision of a single bandit that creates its tensors on first access."""

from dataclasses import dataclass, field
from typing import Any, Self, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.functional.sampling import draw_one
from torch_softucb.policies.decision import Decision

_SINGLE = torch.Size(())
_Value = NDArray[np.float64] | float | Tensor | None


class _LazyField:
    """Field of a :class:`LazyDecision` that is converted to a tensor when it is first read.

    The tensor is stored in the instance's dict, which Python reads before a descriptor without ``__set__``.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, decision: None, owner: type) -> Self: ...
    @overload
    def __get__(self, decision: "LazyDecision", owner: type) -> Tensor: ...
    def __get__(self, decision: "LazyDecision | None", owner: type) -> Any:
        if decision is None:
            return self
        value = decision.values.get(self.name)
        if value is not None and not isinstance(value, Tensor):
            dtype = np.float32 if decision.dtype == torch.float32 else np.float64
            value = torch.from_numpy(np.array(value, dtype=dtype))
        decision.__dict__[self.name] = value
        return value


@dataclass(frozen=True, eq=False, init=False)
class LazyDecision(Decision):
    """Decision of one bandit whose tensors are created on first access; most requests read none of them.

    Attributes:
        dtype: dtype of the tensors, float32 or float64.
        values: fields as numpy arrays and floats, in float64.
    """

    dtype: torch.dtype = torch.float64
    values: dict[str, _Value] = field(init=False, repr=False)
    probs = _LazyField()
    index = _LazyField()
    mu_hat = _LazyField()
    width = _LazyField()
    beta = _LazyField()
    gamma = _LazyField()
    next_gamma = _LazyField()

    def __init__(
        self,
        *,
        dtype: torch.dtype,
        mask: Tensor | None = None,  # (K,)
        features: Tensor | None = None,  # (K, d)
        bandit: Tensor | None = None,
        situation: Tensor | None = None,
        **values: _Value,
    ) -> None:
        own = self.__dict__
        own["dtype"], own["mask"], own["values"] = dtype, mask, values
        if features is not None or bandit is not None or situation is not None:  # else the defaults of the class
            own["features"], own["bandit"], own["situation"] = features, bandit, situation

    def with_request(self, *, features: Tensor, bandit: Tensor | None) -> Self:
        """Return the same decision together with the request that it answers."""
        new = type(self)(dtype=self.dtype, mask=self.mask, features=features, bandit=bandit, situation=self.situation)
        new.values.update(self.values)
        return new

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of a single decision, ``()``."""
        return _SINGLE

    @property
    def num_arms(self) -> int:
        """Number of arms K."""
        return len(self.values["probs"])  # type: ignore[arg-type]

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # () int64
        """Draw one arm."""
        device = None if generator is None else generator.device
        return self.pick(torch.rand((), generator=generator, dtype=torch.float64, device=device))

    def pick(self, noise: Tensor) -> Tensor:  # () uniform in [0, 1) -> () int64
        """Return the arm that the given random number selects; deterministic."""
        probs = self.values["probs"]
        if not isinstance(probs, np.ndarray):
            return super().pick(noise)
        # the law of the draw is what `probs` states, rounded to the policy's dtype
        return draw_one(probs if self.dtype == torch.float64 else probs.astype(np.float32), noise.item())
