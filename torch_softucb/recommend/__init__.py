"""SoftUCB inside a recommender: head, delayed feedback, decision log, off-policy evaluation."""

from torch_softucb.recommend.features import FeatureMap
from torch_softucb.recommend.head import Replay, Served, SoftUCBHead
from torch_softucb.recommend.journal import JournalError
from torch_softucb.recommend.learning import OnlineBeta
from torch_softucb.recommend.log import DecisionLog, Place
from torch_softucb.recommend.read import LoggedDecisions, log_records, read_decisions, read_log
from torch_softucb.recommend.replay import Replayed, replay
from torch_softucb.recommend.restart import restart, save_checkpoint
from torch_softucb.recommend.serving import DecisionPath

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
