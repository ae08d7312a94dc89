"""Beta along the horizon."""

import torch
from torch import Tensor, nn

from torch_softucb.checks import check_float_tensor, check_integer, check_number, check_shape
from torch_softucb.policies._checks import check_positive
from torch_softucb.policies.beta.base import BetaModule


class ScheduleBeta(BetaModule):
    """beta along the horizon: numbers at equally spaced places of t / T, straight lines between them, the last one after T.

    Their logarithms are learned: towards the end a small beta is good, but one of exactly 0 would play at random (D1).

    Args:
        horizon: T.
        init: beta > 0 at the places, or one number for ``knots`` places.
        knots: how many places.

    Example:
        >>> schedule = ScheduleBeta(100, init=torch.tensor([1.0, 0.5]))
        >>> schedule(torch.tensor([[0.0], [50.0], [100.0], [500.0]]))
        tensor([1.0000, 0.7500, 0.5000, 0.5000], grad_fn=<SumBackward1>)
    """

    inputs = ("num_observations",)
    lr = 0.1  # of logarithms

    def __init__(self, horizon: int, *, init: float | Tensor = 1.0, knots: int = 5) -> None:
        super().__init__()
        self.horizon = check_integer("ScheduleBeta", "horizon", horizon, low=1)
        knots = check_integer("ScheduleBeta", "knots", knots, low=2)
        if not isinstance(init, Tensor):
            init = torch.full((knots,), check_number("ScheduleBeta", "init", init, low=0.0, open_low=True))
        check_float_tensor("ScheduleBeta", "init", init)
        check_shape("ScheduleBeta", "init", init.shape, init.dim() == 1 and len(init) > 0, "(knots,)")
        check_positive("ScheduleBeta", "init", init)
        self.log_beta = nn.Parameter(init.detach().log())

    @property
    def log_parameters(self) -> list[nn.Parameter]:
        return [self.log_beta]

    @property
    def typical(self) -> float:
        return float(self.log_beta.detach().exp().mean())

    def forward(self, situation: Tensor, bandit: Tensor | None = None) -> Tensor:
        beta, last = self.log_beta.exp(), len(self.log_beta) - 1
        place = (situation[..., 0] / self.horizon * last).clamp(0, last)
        knots = torch.arange(last + 1, dtype=place.dtype, device=place.device)
        return ((1 - (place.unsqueeze(-1) - knots).abs()).clamp(min=0) * beta).sum(-1)  # each knot's part
