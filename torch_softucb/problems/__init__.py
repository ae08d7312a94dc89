"""Problems know the truth: arms, true means, noise."""

from torch_softucb.problems.synthetic import synthetic_problem

__all__ = ["synthetic_problem"]
