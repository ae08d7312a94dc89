"""Gradient estimators of a policy's parameters, chosen by name."""

from torch_softucb.learning.estimators import finite_difference, paper, score_function
from torch_softucb.learning.estimators.base import Estimator, Signal, TrajectoryReward

ESTIMATORS: dict[str, Estimator] = {
    estimator.name: estimator
    for estimator in (paper.paper, score_function.trajectory, finite_difference.common_random_numbers)
}

__all__ = ["ESTIMATORS", "Estimator", "Signal", "TrajectoryReward"]
