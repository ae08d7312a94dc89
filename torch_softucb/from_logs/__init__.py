"""From a decision log to a learned policy: posterior, drawn problems, what is expected to be gained."""

from torch_softucb.from_logs.pipeline import LearnedFromLog, learn_from_log
from torch_softucb.from_logs.posterior import ProblemPosterior, fit_posterior, learn_beta

__all__ = ["LearnedFromLog", "ProblemPosterior", "fit_posterior", "learn_beta", "learn_from_log"]
