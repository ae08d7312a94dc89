"""Data module of ratings: users are the bandits, items their arms."""

from collections.abc import Sequence
from typing import Any

import torch

from torch_softucb.checks import check_integer, check_number
from torch_softucb.problems.base import BanditProblem
from torch_softucb.problems.contextual import contextual_problem
from torch_softucb.problems.rating_table import COLUMNS, load_rating_table
from torch_softucb.problems.ratings import user_features
from torch_softucb.training.problem_data import PoolDataModule


class RatingsDataModule(PoolDataModule):
    """Data module of a table of ratings: one bandit per user, one arm per item, with the user's rating as mean reward.

    Ratings are scaled to [0, 1], and gaps are filled by matrix factorisation. The factors, and the features of an item
    (principal components of its ratings), come from the training users alone.

    Args:
        path: a ``.csv`` or ``.parquet`` file with one rating per row, or a folder of MovieLens or Jester; see
            :func:`~torch_softucb.problems.load_rating_table`.
        columns: names of the columns of users, items and ratings.
        num_items: number of items, the most-rated first.
        dim: number of principal components. With ``intercept`` the items have one feature more.
        intercept: append a constant feature, without which a linear model cannot represent a user's mean rating.
        candidates: number of items that are offered in each round, drawn at random; by default all items are arms in every
            round.
        noise_std: standard deviation of the reward noise, on the scale [0, 1].
        **pool: ``held_out``, the share of the users for validation and as large a share for test, and ``trajectories``,
            ``num_steps``, ``eval_trajectories``, ``one_episode`` and ``seed`` of
            :class:`~torch_softucb.training.EpisodeDataModule`.

    Attributes:
        dim: number of features, the intercept included.
    """

    def __init__(
        self,
        *,
        path: str,
        columns: Sequence[str] = COLUMNS,
        num_items: int = 40,
        dim: int = 10,
        intercept: bool = True,
        candidates: int | None = None,
        noise_std: float = 0.1,
        **pool: Any,
    ) -> None:
        super().__init__(**pool)
        where = "RatingsDataModule"
        num_items = check_integer(where, "num_items", num_items, low=2)
        components = check_integer(where, "dim", dim, low=1)
        noise_std = check_number(where, "noise_std", noise_std, low=0.0)
        table = load_rating_table(
            path, num_items=num_items, columns=columns, learn_from=lambda count: self.split(count)["train"].numpy()
        )
        train = self.split(len(table))["train"].numpy()
        most = min(num_items - 1, len(train))
        if components > most:
            raise ValueError(
                f"{where}: dim must be at most {most}, with {num_items} items and {len(train)} training users, got "
                f"{components}; use fewer components or more items"
            )
        # the rows of the transposed table are items: their components come from the users of training alone
        features = user_features(table[train].T, dim=components, intercept=intercept)
        items, means = (torch.tensor(values, dtype=torch.get_default_dtype()) for values in (features, table))
        if candidates is None:
            problem = BanditProblem(items, means, noise_std)
        else:
            problem = contextual_problem(items, means=means, candidates=candidates, noise_std=noise_std)
        self.fill(problem)
        self.save_hyperparameters(ignore=["dim"])  # the model has the number of features under this name
