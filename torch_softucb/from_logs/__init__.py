"""Learn from a decision log: fit a posterior over problems, learn beta on draws from it, and estimate the gain."""

from torch_softucb.from_logs.learn import learn_beta
from torch_softucb.from_logs.pipeline import LearnedFromLog, learn_from_log
from torch_softucb.from_logs.posterior import ProblemPosterior, fit_posterior

__all__ = ["LearnedFromLog", "ProblemPosterior", "fit_posterior", "learn_beta", "learn_from_log"]
