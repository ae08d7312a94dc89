"""SoftUCB inside a recommender: head, delayed feedback, decision log, off-policy evaluation."""

from torch_softucb.errors import JournalError
from torch_softucb.recommend.export import DecisionPath
from torch_softucb.recommend.features import FeatureMap
from torch_softucb.recommend.head import Replay, Served, SoftUCBHead
from torch_softucb.recommend.log.reader import LoggedDecisions, log_records, read_decisions, read_log
from torch_softucb.recommend.log.writer import DecisionLog, Place
from torch_softucb.recommend.online_beta import OnlineBeta
from torch_softucb.recommend.recovery import restart, save_checkpoint
from torch_softucb.recommend.replay_evaluation import Replayed, replay

__all__ = [
    "DecisionLog",
    "DecisionPath",
    "FeatureMap",
    "JournalError",
    "LoggedDecisions",
    "OnlineBeta",
    "Place",
    "Replay",
    "Replayed",
    "Served",
    "SoftUCBHead",
    "log_records",
    "read_decisions",
    "read_log",
    "replay",
    "restart",
    "save_checkpoint",
]
