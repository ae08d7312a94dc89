"""Jester: ratings of jokes in [-10, 10] (K. Goldberg et al.: Eigentaste, Information Retrieval 2001)."""

import os

import numpy as np
from numpy.typing import NDArray

from torch_softucb.errors import DataError
from torch_softucb.problems.tables import check_range, find_table, read_table

_NOT_RATED = 99.0


def load_jester(path: str | os.PathLike[str] | None = None, *, num_items: int = 40) -> NDArray[np.float64]:
    """Ratings (users, num_items) of the users who rated all of the ``num_items`` most-rated jokes, scaled to [0, 1].

    Args:
        path: ``jester-data-1.csv`` (its original format, without header: how many jokes a user rated, then 100 ratings,
            99 for none) or its .gz, or a folder that holds it; by default ``$SOFTUCB_DATA/jester``.
        num_items: jokes to keep; 40 leaves 19,181 users of part 1.
    """
    file = find_table("load_jester", path, ["jester-data-1.csv"], ["jester", "."])
    table = read_table("load_jester", file, separator=",", columns=range(101), width=[101], header=False)
    counts, ratings = table[:, 0], table[:, 1:]
    rated = ratings != _NOT_RATED
    ratings = np.where(rated, ratings, np.nan)
    check_range("load_jester", file, ratings, -10.0, 10.0, header=False)
    wrong = np.flatnonzero(rated.sum(1) != counts)
    if len(wrong):
        line = wrong[0]
        raise DataError(
            f"load_jester: {file}, line {line + 1}: column 1 says {counts[line]:g} ratings, there are {rated[line].sum()}"
        )
    if not 2 <= num_items <= ratings.shape[1]:
        raise DataError(f"load_jester: num_items must be in [2, {ratings.shape[1]}], got {num_items}")
    chosen = np.sort(np.argsort(-rated.sum(0), kind="stable")[:num_items])
    kept: NDArray[np.float64] = ratings[:, chosen][rated[:, chosen].all(1)]
    return (kept + 10.0) / 20.0
