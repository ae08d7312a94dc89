"""SoftUCB inside a recommender.

The order of calls for a batch of requests::

    decision = head(*inputs)             # probabilities of all candidates
    served = head.serve(decision)        # items, with ids and exact propensities
    log.decisions(served); log.commit()  # durable: now show the items
    head.feedback(served.id, reward)     # later, in any order and batching
    log.rewards(served.id, reward)       # after feedback, so that refused rewards are not logged
    save_checkpoint(path, head, log)     # now and then; after a crash: restart(head, folder, path)

Three names sound alike: :class:`Replay` is a batch of past requests for ``SoftUCBHead.refit``, :func:`replay` evaluates a
policy on a log, and :class:`Replayed` is the result of that evaluation.
"""

from torch_softucb.errors import JournalError, LogWarning
from torch_softucb.recommend.export import DecisionPath
from torch_softucb.recommend.features import FeatureMap
from torch_softucb.recommend.head import SoftUCBHead
from torch_softucb.recommend.log.logged_decisions import LoggedDecisions
from torch_softucb.recommend.log.reader import log_records, read_decisions, read_log
from torch_softucb.recommend.log.salvage import Salvaged, Skipped, salvage_log
from torch_softucb.recommend.log.segments import Place
from torch_softucb.recommend.log.writer import DecisionLog
from torch_softucb.recommend.online_beta import OnlineBeta
from torch_softucb.recommend.recovery import restart, save_checkpoint
from torch_softucb.recommend.refit import Replay
from torch_softucb.recommend.replay_evaluation import Replayed, replay
from torch_softucb.recommend.serving import Served

__all__ = [
    "DecisionLog",
    "DecisionPath",
    "FeatureMap",
    "JournalError",
    "LogWarning",
    "LoggedDecisions",
    "OnlineBeta",
    "Place",
    "Replay",
    "Replayed",
    "Salvaged",
    "Served",
    "Skipped",
    "SoftUCBHead",
    "log_records",
    "read_decisions",
    "read_log",
    "replay",
    "restart",
    "salvage_log",
    "save_checkpoint",
]
