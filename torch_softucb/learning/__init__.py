"""Learn how much to explore, in plain torch and without Lightning."""

from torch_softucb.learning.dual import Dual, OnlineDual
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators import ESTIMATORS, Estimator, Signal, TrajectoryReward
from torch_softucb.learning.fitting import FitResult, fit, fit_episodes
from torch_softucb.learning.log_adam import RelativeAdam
from torch_softucb.learning.online import OnlineRun, OnlineStep, online_step, run_online

__all__ = [
    "ESTIMATORS",
    "Dual",
    "Episode",
    "Estimator",
    "FitResult",
    "OnlineDual",
    "OnlineRun",
    "OnlineStep",
    "RelativeAdam",
    "Signal",
    "TrajectoryReward",
    "fit",
    "fit_episodes",
    "online_step",
    "run_online",
]
