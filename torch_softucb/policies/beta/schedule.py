"""Beta as a piecewise linear function of time."""

import torch
from torch import Tensor, nn

from torch_softucb.checks import check_finite, check_float_tensor, check_integer, check_number, check_shape
from torch_softucb.policies.beta.base import BetaModule


class ScheduleBeta(BetaModule):
    """Beta as a piecewise linear function of t / T, constant after T.

    The values at equally spaced knots are learned through their logarithms. Towards the end a small beta is good, but
    at exactly 0 play would be uniform (D1).

    Args:
        horizon: number of rounds T.
        init: initial beta > 0, one value for all knots or a tensor ``(knots,)``.
        knots: number of knots if ``init`` is a number.

    Example:
        >>> schedule = ScheduleBeta(100, init=torch.tensor([1.0, 0.5]))
        >>> schedule(torch.tensor([[0.0], [50.0], [100.0], [500.0]]))
        tensor([1.0000, 0.7500, 0.5000, 0.5000], grad_fn=<SumBackward1>)
    """

    inputs = ("num_observations",)
    lr = 0.1  # steps of log beta
    horizon: int

    def __init__(self, horizon: int, *, init: float | Tensor = 1.0, knots: int = 5) -> None:
        super().__init__()
        self.horizon = check_integer("ScheduleBeta", "horizon", horizon, low=1)
        knots = check_integer("ScheduleBeta", "knots", knots, low=2)
        if not isinstance(init, Tensor):
            init = torch.full((knots,), check_number("ScheduleBeta", "init", init, low=0.0, open_low=True))
        check_float_tensor("ScheduleBeta", "init", init)
        check_shape("ScheduleBeta", "init", init.shape, init.dim() == 1 and len(init) > 0, "(knots,)")
        check_finite("ScheduleBeta", "init", init)
        if bool((init <= 0).any()):
            raise ValueError(f"ScheduleBeta: init must be above 0, got {float(init.min())}")
        self.log_beta = nn.Parameter(init.detach().log())

    @property
    def log_parameters(self) -> list[nn.Parameter]:
        """Logarithms of beta at the knots."""
        return [self.log_beta]

    @property
    def typical(self) -> float:
        """Mean beta over the knots."""
        return float(self.log_beta.detach().exp().mean())

    def forward(self, situation: Tensor, bandit: Tensor | None = None) -> Tensor:  # (*B, 1) -> (*B,)
        """Interpolate between the knots at t / T, with t the number of observations."""
        beta, last = self.log_beta.exp(), len(self.log_beta) - 1
        position = (situation[..., 0] / self.horizon * last).clamp(0, last)
        knots = torch.arange(last + 1, dtype=position.dtype, device=position.device)
        weights = (1 - (position.unsqueeze(-1) - knots).abs()).clamp(min=0)  # (*B, knots)
        return (weights * beta).sum(-1)
