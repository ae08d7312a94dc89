"""Jester: ratings of jokes in [-10, 10] (K. Goldberg et al.: Eigentaste, Information Retrieval 2001)."""

import os

import numpy as np
from numpy.typing import NDArray

from torch_softucb.errors import DataError
from torch_softucb.problems.tables import check_ratings, find_table, read_table

_NOT_RATED = 99.0


def load_jester(path: str | os.PathLike[str] | None = None, *, num_items: int = 40) -> NDArray[np.float64]:
    """Load the ratings of the most-rated jokes, by the users who rated all of them, scaled to [0, 1].

    Args:
        path: the file ``jester-data-1.csv`` or its .gz, or the folder that contains it; by default
            ``$SOFTUCB_DATA/jester``. The file is expected in its original format: no header, and per user the number of
            rated jokes followed by 100 ratings, where 99 means "not rated".
        num_items: number of jokes to keep, the most-rated first; 40 leaves 19,181 users of part 1.

    Returns:
        Table of shape ``(users, num_items)`` without gaps, jokes in the order of the file.

    Raises:
        DataError: the file is missing or malformed; the message names the file and, if known, the line.
    """
    where = "load_jester"
    file = find_table(where, path, ["jester-data-1.csv"], ["jester", "."])
    table = read_table(where, file, separator=",", columns=range(101), width=[101], header=False)
    counts, ratings = table[:, 0], table[:, 1:]
    rated = ratings != _NOT_RATED
    ratings = np.where(rated, ratings, np.nan)
    check_ratings(where, file, ratings, -10.0, 10.0, header=False)
    wrong = np.flatnonzero(rated.sum(1) != counts)
    if len(wrong):
        row = wrong[0]
        raise DataError(
            f"{where}: {file}, line {row + 1}: column 1 must be the number of ratings, {rated[row].sum()} in this line, got "
            f"{counts[row]:g}; download the file again"
        )
    if not 2 <= num_items <= ratings.shape[1]:
        raise DataError(f"{where}: num_items must be in [2, {ratings.shape[1]}], got {num_items}")
    chosen = np.sort(np.argsort(-rated.sum(0), stable=True)[:num_items])
    complete: NDArray[np.float64] = ratings[:, chosen][rated[:, chosen].all(1)]
    return (complete + 10.0) / 20.0
