"""Adam that moves a beta by shares of itself."""

from collections.abc import Callable
from typing import Any

import torch

from torch_softucb.policies import SoftUCBPolicy

LEAST = 0.01  # where a beta of 0 sets out from: at 0 play is uniform (D1) and no draw credits anything


class RelativeAdam(torch.optim.Adam):
    """Adam on logarithms, for the parameters of groups with ``positive=True``; plain Adam for the others.

    A step of ``lr`` changes such a parameter by about that share of itself: from 4 to 0.5 is as far as from 0.05 to 0.4,
    rewards of any scale are learned from alike, and 0 is never reached. Parameters hold their values, not logarithms.

    Example:
        >>> beta = torch.nn.Parameter(torch.tensor(2.0))
        >>> optimizer = RelativeAdam([{"params": [beta], "positive": True}], lr=0.1)
        >>> beta.square().backward()
        >>> optimizer.step()
        >>> beta.detach()  # 2 exp(-0.1)
        tensor(1.8097)
    """

    def __init__(self, params: Any, *, lr: float, betas: tuple[float, float] = (0.8, 0.95)) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=1e-12)  # few steps: a short memory; rewards may be small
        for group in self.param_groups:
            group.setdefault("positive", False)

    @classmethod
    def of(cls, policy: SoftUCBPolicy, *, lr: float) -> "RelativeAdam":
        """For all that a policy learns."""
        positive = policy.positive_parameters
        free = [parameter for parameter in policy.parameters() if all(parameter is not other for other in positive)]
        groups = ({"params": positive, "positive": True}, {"params": free, "positive": False})
        return cls([group for group in groups if group["params"]], lr=lr)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        moved = [p for group in self.param_groups if group["positive"] for p in group["params"] if p.grad is not None]
        for parameter in moved:
            parameter.masked_fill_(parameter <= 0, LEAST)
            assert parameter.grad is not None
            parameter.grad.mul_(parameter)  # d / d log p
            parameter.log_()
        super().step()
        for parameter in moved:
            parameter.exp_()
        return loss
