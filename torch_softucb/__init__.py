"""torch_softucb: linear bandits in PyTorch that learn how much to explore (Yang & Toni 2020)."""

from torch_softucb import functional
from torch_softucb.checks import NumericalError
from torch_softucb.policies import BanditPolicy, EpsilonGreedy, LinTS, LinUCB, SoftUCBPolicy
from torch_softucb.problems import synthetic_problem
from torch_softucb.rollout import rollout
from torch_softucb.types import BanditProblem, Decision, Trajectory

__version__ = "0.1.0"
__all__ = [
    "BanditPolicy",
    "BanditProblem",
    "Decision",
    "EpsilonGreedy",
    "LinTS",
    "LinUCB",
    "NumericalError",
    "SoftUCBPolicy",
    "Trajectory",
    "functional",
    "rollout",
    "synthetic_problem",
]
