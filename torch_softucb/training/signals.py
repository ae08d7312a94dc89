"""What an estimator gives the trainer."""

from typing import NamedTuple

from torch import Tensor

from torch_softucb.types import Trajectory


class Signal(NamedTuple):
    loss: Tensor  # () its value is -objective, its gradient what the optimiser steps against
    reward_gradient: Tensor  # () reward part of beta's gradient, over T, mean over trajectories
    penalty_gradient: Tensor  # () penalty part, likewise
    trajectory: Trajectory
