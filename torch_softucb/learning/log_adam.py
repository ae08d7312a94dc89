"""Adam that moves a beta by shares of itself, and ends where it has been on average."""

from collections.abc import Callable
from typing import Any

import torch

from torch_softucb.policies import SoftUCBPolicy

LEAST = 0.01  # where a beta of 0 sets out from: at 0 play is uniform (D1) and no draw credits anything


class RelativeAdam(torch.optim.Adam):
    """Adam on logarithms, for the parameters of groups with ``positive=True``; plain Adam for the others.

    A step of ``lr`` changes such a parameter by about that share of itself: from 4 to 0.5 is as far as from 0.05 to 0.4,
    rewards of any scale are learned from alike, and 0 is never reached. Parameters hold their values, not logarithms.

    Args:
        params: parameters or groups.
        lr: learning rate.
        steps: how many steps there will be, if that is known: the last one sets every parameter to the mean of what it was
            in the second half (of its logarithm, where it is positive). Gradients of simulated regret are noisy, and this
            takes most of the noise out of the end.

    Example:
        >>> beta = torch.nn.Parameter(torch.tensor(2.0))
        >>> optimizer = RelativeAdam([{"params": [beta], "positive": True}], lr=0.1)
        >>> beta.square().backward()
        >>> optimizer.step()
        >>> beta.detach()  # 2 exp(-0.1)
        tensor(1.8097)
    """

    def __init__(self, params: Any, *, lr: float, steps: int | None = None) -> None:
        # few steps: a short memory; rewards may be small: a small eps
        super().__init__(params, lr=lr, betas=(0.8, 0.95), eps=1e-12)
        self.steps = steps

    @classmethod
    def of(cls, policy: SoftUCBPolicy, *, lr: float, steps: int | None = None) -> "RelativeAdam":
        """For all that a policy learns."""
        positive = policy.positive_parameters
        free = [parameter for parameter in policy.parameters() if all(parameter is not other for other in positive)]
        groups = ({"params": positive, "positive": True}, {"params": free, "positive": False})
        return cls([group for group in groups if group["params"]], lr=lr, steps=steps)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups = [(group, p) for group in self.param_groups for p in group["params"] if p.grad is not None]
        positive = [(p, p.grad) for group, p in groups if group.get("positive", False)]
        for parameter, gradient in positive:
            parameter.masked_fill_(parameter <= 0, LEAST)
            parameter.grad = gradient * parameter  # d / d log p
            parameter.log_()
        adam = torch.optim.Adam.step
        adam = adam.__wrapped__ if getattr(adam, "hooked", False) else adam  # type: ignore[attr-defined]
        adam(self)  # not the wrapper that torch lays around it: step hooks belong to this step
        for _, parameter in groups:
            self._average(parameter)
        for parameter, gradient in positive:
            parameter.exp_()
            parameter.grad = gradient
        return loss

    def _average(self, parameter: torch.Tensor) -> None:
        state = self.state[parameter]
        done = int(state["step"])
        if self.steps is None or not self.steps // 2 < done <= self.steps:
            return
        state["tail"] = state["tail"] + parameter if "tail" in state else parameter.clone()
        if done == self.steps:
            parameter.copy_(state["tail"] / (self.steps - self.steps // 2))
