"""Adam in log space for positive parameters, with tail averaging over the second half of training."""

from collections.abc import Callable
from typing import Any

import torch

from torch_softucb.policies import SoftUCBPolicy

MIN_VALUE = 0.01  # a beta of 0 restarts from here: at 0 play is uniform (D1) and no drawn arm earns credit


class RelativeAdam(torch.optim.Adam):
    """Adam on the logarithm of parameters in groups with ``positive=True``; plain Adam for the others.

    A step of ``lr`` multiplies a positive parameter by about ``1 + lr`` or ``1 - lr``. Going from 4 to 0.5 takes as many
    steps as from 0.05 to 0.4, rewards of any scale lead to the same steps, and 0 is never reached. Parameters hold their
    values, not logarithms.

    Args:
        params: parameters or groups.
        lr: learning rate.
        steps: number of steps of the run, if it is known. The last step sets every parameter to its mean over the second
            half of the run (the geometric mean where it is positive), which removes most of the noise that gradients of
            simulated regret leave at the end.

    Example:
        >>> beta = torch.nn.Parameter(torch.tensor(2.0))
        >>> optimizer = RelativeAdam([{"params": [beta], "positive": True}], lr=0.1)
        >>> beta.square().backward()
        >>> optimizer.step()
        >>> beta.detach()  # 2 exp(-0.1)
        tensor(1.8097)
    """

    def __init__(self, params: Any, *, lr: float, steps: int | None = None) -> None:
        # runs are short, so the moments forget quickly; rewards may be small, so eps is tiny
        super().__init__(params, lr=lr, betas=(0.8, 0.95), eps=1e-12)
        self.steps = steps

    @classmethod
    def of(cls, policy: SoftUCBPolicy, *, lr: float, steps: int | None = None) -> "RelativeAdam":
        """Build the optimiser for everything that a policy learns."""
        positive = policy.positive_parameters
        free = [parameter for parameter in policy.parameters() if all(parameter is not other for other in positive)]
        groups = ({"params": positive, "positive": True}, {"params": free, "positive": False})
        return cls([group for group in groups if group["params"]], lr=lr, steps=steps)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state of the same parameters; raise ValueError and change nothing if it cannot be one.

        Moments and the sum of tail averaging must be finite and have the shape of their parameter; second moments and
        step numbers must not be negative.
        """
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        for index, state in state_dict.get("state", {}).items():
            fits = type(index) is int and 0 <= index < len(parameters) and isinstance(state, dict)
            if not fits or not _is_possible(state, parameters[index]):
                raise ValueError(
                    f"RelativeAdam.load_state_dict: the state of parameter {index!r} must be finite moments of its shape; "
                    "nothing was changed"
                )
        super().load_state_dict(state_dict)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take one step; see :meth:`torch.optim.Optimizer.step`."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups = [(group, p) for group in self.param_groups for p in group["params"] if p.grad is not None]
        positive = [(p, p.grad) for group, p in groups if group.get("positive", False)]
        for parameter, gradient in positive:
            parameter.masked_fill_(parameter <= 0, MIN_VALUE)
            parameter.grad = gradient * parameter  # d / d log p
            parameter.log_()
        # torch wraps Adam.step to call the step hooks; they belong to this step and must not run twice
        adam = torch.optim.Adam.step
        adam = adam.__wrapped__ if getattr(adam, "hooked", False) else adam  # type: ignore[attr-defined]
        adam(self)
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


def _is_possible(state: dict[str, Any], parameter: torch.Tensor) -> bool:
    """Whether the state of a parameter can be one of :class:`RelativeAdam`."""
    if not {"step", "exp_avg", "exp_avg_sq"} <= set(state) <= {"step", "exp_avg", "exp_avg_sq", "tail"}:
        return False
    for name, value in state.items():
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not bool(value.isfinite().all()):
            return False
        if value.shape != (() if name == "step" else parameter.shape):
            return False
    return not bool((state["exp_avg_sq"] < 0).any()) and float(state["step"]) >= 0
