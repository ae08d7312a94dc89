"""torch_softucb: linear bandits in PyTorch that learn how much to explore (Yang & Toni 2020).

In docstrings, equations (Eq.), sections, lemmas and algorithms are those of the paper. The numbered departures from it (D1
to D11) are listed in the README.
"""

from torch_softucb import functional
from torch_softucb.errors import NumericalError, SoftUCBError
from torch_softucb.from_logs.prior import fit_prior
from torch_softucb.learning import fit
from torch_softucb.policies import (
    EXP3,
    AutoSoftUCB,
    BanditPolicy,
    BootstrappedUCB,
    BootstrapThompson,
    EpsilonGreedy,
    LinGiro,
    LinPHE,
    LinTS,
    LinUCB,
    PhasedElimination,
    SoftElim,
    SoftUCBPolicy,
)
from torch_softucb.policies.beta.base import BetaModule
from torch_softucb.policies.beta.network import SituationBeta
from torch_softucb.policies.beta.schedule import ScheduleBeta
from torch_softucb.policies.beta.segment import SegmentBeta
from torch_softucb.policies.beta.summary import SummaryBeta
from torch_softucb.policies.decision import Decision
from torch_softucb.policies.disjoint import DisjointArms
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.policies.rank_merger import RankMerger
from torch_softucb.policies.serialization import load_policy, save_policy
from torch_softucb.problems import ContextualProblem, contextual_problem, synthetic_problem
from torch_softucb.problems.base import BanditProblem
from torch_softucb.recommend import SoftUCBHead
from torch_softucb.simulation.rollout import rollout
from torch_softucb.simulation.trajectory import Trajectory

__version__ = "0.1.0"
__all__ = [
    "EXP3",
    "AutoSoftUCB",
    "BanditPolicy",
    "BanditProblem",
    "BetaModule",
    "BootstrapThompson",
    "BootstrappedUCB",
    "ContextualProblem",
    "Decision",
    "DisjointArms",
    "EpsilonGreedy",
    "GaussianPrior",
    "LinGiro",
    "LinPHE",
    "LinTS",
    "LinUCB",
    "NumericalError",
    "PhasedElimination",
    "RankMerger",
    "ScheduleBeta",
    "SegmentBeta",
    "SituationBeta",
    "SoftElim",
    "SoftUCBError",
    "SoftUCBHead",
    "SoftUCBPolicy",
    "SummaryBeta",
    "Trajectory",
    "contextual_problem",
    "fit",
    "fit_prior",
    "functional",
    "load_policy",
    "rollout",
    "save_policy",
    "synthetic_problem",
]
