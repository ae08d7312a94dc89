"""Learn beta with Lightning, offline (Algorithm 2) or online (Algorithm 3), with logging to TensorBoard."""

from torch_softucb.errors import BetaWarning
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.log_adam import RelativeAdam
from torch_softucb.problems.family import Family
from torch_softucb.training.checkpoint import AtomicCheckpointIO
from torch_softucb.training.dashboard import Dashboard
from torch_softucb.training.data import BanditDataModule, EpisodeDataModule, FamilyDataModule
from torch_softucb.training.log_data import LogDataModule
from torch_softucb.training.merge import MergeStatistics
from torch_softucb.training.meta import SoftUCBMeta
from torch_softucb.training.module import SoftUCBModule
from torch_softucb.training.offline import SoftUCBOffline
from torch_softucb.training.online import SoftUCBOnline
from torch_softucb.training.problem_data import ProblemDataModule
from torch_softucb.training.ratings_data import RatingsDataModule
from torch_softucb.training.runs import Run, last_run
from torch_softucb.training.trainer import trainer_for

__all__ = [
    "AtomicCheckpointIO",
    "BanditDataModule",
    "BetaWarning",
    "Dashboard",
    "Episode",
    "EpisodeDataModule",
    "Family",
    "FamilyDataModule",
    "LogDataModule",
    "MergeStatistics",
    "ProblemDataModule",
    "RatingsDataModule",
    "RelativeAdam",
    "Run",
    "SoftUCBMeta",
    "SoftUCBModule",
    "SoftUCBOffline",
    "SoftUCBOnline",
    "last_run",
    "trainer_for",
]
