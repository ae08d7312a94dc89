"""From a decision log to a learned policy: posterior, drawn problems, what is expected to be gained."""

from torch_softucb.training.logs.posterior import ProblemPosterior, fit_posterior, learn_beta
from torch_softucb.training.logs.study import LearnedFromLog, learn_from_log

__all__ = ["LearnedFromLog", "ProblemPosterior", "fit_posterior", "learn_beta", "learn_from_log"]
