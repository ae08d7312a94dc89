"""Problems with known true means: synthetic bandits, and bandits from tables of ratings."""

from torch_softucb.errors import DataError
from torch_softucb.problems.family import Family, Member
from torch_softucb.problems.jester import load_jester
from torch_softucb.problems.movielens import Ratings, fill_gaps, load_movielens
from torch_softucb.problems.ratings import rating_problem, user_features, users_problem
from torch_softucb.problems.synthetic import synthetic_problem

__all__ = [
    "DataError",
    "Family",
    "Member",
    "Ratings",
    "fill_gaps",
    "load_jester",
    "load_movielens",
    "rating_problem",
    "synthetic_problem",
    "user_features",
    "users_problem",
]
