"""What an estimator gives the trainer."""

from typing import NamedTuple

from torch import Tensor

from torch_softucb.simulation.trajectory import Trajectory


class Signal(NamedTuple):
    loss: Tensor  # () its value is -objective, its gradient what the optimiser steps against
    reward_gradient: Tensor  # () reward part of beta's gradient, over T, mean over trajectories
    penalty_gradient: Tensor  # () penalty part, likewise
    trajectory: Trajectory


def climb(value: Tensor, slope: Tensor) -> Tensor:  # () or (T, *B), or what fits it; (T, *B) -> ()
    """0, with the gradient of ``value`` along ``slope``, averaged over rounds and trajectories."""
    slope = slope.detach()
    if not value.dim():
        return slope.mean() * (value - value.detach())
    return (slope * (value - value.detach())).mean()
