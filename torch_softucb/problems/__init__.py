"""Problems with known true means: synthetic bandits, and bandits from tables of ratings."""

from torch_softucb.errors import DataError
from torch_softucb.problems.contextual import ContextualProblem, contextual_problem
from torch_softucb.problems.family import Family, Member
from torch_softucb.problems.jester import load_jester
from torch_softucb.problems.movielens import Ratings, fill_gaps, load_movielens
from torch_softucb.problems.problem_file import load_problem
from torch_softucb.problems.rating_table import load_rating_table, load_ratings
from torch_softucb.problems.ratings import rating_problem, user_features, users_problem
from torch_softucb.problems.synthetic import synthetic_problem

__all__ = [
    "ContextualProblem",
    "DataError",
    "Family",
    "Member",
    "Ratings",
    "contextual_problem",
    "fill_gaps",
    "load_jester",
    "load_movielens",
    "load_problem",
    "load_rating_table",
    "load_ratings",
    "rating_problem",
    "synthetic_problem",
    "user_features",
    "users_problem",
]
