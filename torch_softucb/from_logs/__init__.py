"""Learn from a decision log: fit a posterior over problems, learn beta on draws from it, and estimate the gain."""

from torch_softucb.from_logs.delays import logged_delays
from torch_softucb.from_logs.learn import learn_beta
from torch_softucb.from_logs.pipeline import LearnedFromLog, learn_from_log
from torch_softucb.from_logs.posterior import ProblemPosterior, fit_posterior
from torch_softucb.from_logs.prior import fit_prior
from torch_softucb.from_logs.stream_evaluation import evaluate_stream
from torch_softucb.from_logs.summary import LogSummary, summarise_log

__all__ = [
    "LearnedFromLog",
    "LogSummary",
    "ProblemPosterior",
    "evaluate_stream",
    "fit_posterior",
    "fit_prior",
    "learn_beta",
    "learn_from_log",
    "logged_delays",
    "summarise_log",
]
