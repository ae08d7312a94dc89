"""MovieLens: ratings of films in (0, 5] (F. M. Harper, J. A. Konstan: The MovieLens datasets, ACM TiiS 2015)."""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from torch_softucb.errors import DataError
from torch_softucb.problems.tables import check_range, find_table, read_table


class Ratings(NamedTuple):
    """Who rated what; users and items are numbered from 0 in the order of their ids."""

    user: NDArray[np.int64]  # (n,)
    item: NDArray[np.int64]  # (n,)
    value: NDArray[np.float64]  # (n,) as in the file
    num_users: int
    num_items: int


_NAMES = ["ratings.dat", "ratings_no_timestamp.dat", "u.data", "ratings.csv"]


def load_movielens(path: str | os.PathLike[str] | None = None) -> Ratings:
    """The ratings of MovieLens-1M, -100K or latest-small, whichever lies there.

    Args:
        path: ``ratings.dat`` (user::film::rating, a timestamp may follow), ``u.data`` (tab-separated) or ``ratings.csv``
            (with header), or .gz of these, or a folder that holds one; by default ``$SOFTUCB_DATA/ml-1m``.
    """
    where = "load_movielens"
    file = find_table(where, path, _NAMES, ["ml-1m", "ml-100k", "ml-latest-small", "."])
    name = file.name.removesuffix(".gz")
    header = name.endswith(".csv")
    if name.endswith(".dat"):  # "::" splits into empty columns between colons, which the fast parser takes
        table = read_table(where, file, separator=":", columns=[0, 2, 4], width=[5, 7], header=False)
    elif header:
        table = read_table(where, file, separator=",", columns=[0, 1, 2], width=[3, 4], header=True)
    else:
        table = read_table(where, file, separator="\t", columns=[0, 1, 2], width=[3, 4], header=False)
    check_range(where, file, table[:, 2], 0.5, 5.0, header=header)
    return _numbered(where, file, table, header)


def _numbered(where: str, file: Path, table: NDArray[np.float64], header: bool) -> Ratings:
    users, user = np.unique(table[:, 0], return_inverse=True)
    items, item = np.unique(table[:, 1], return_inverse=True)
    pair = user * len(items) + item
    order = np.argsort(pair, kind="stable")
    twice = np.flatnonzero(np.diff(pair[order]) == 0)
    if len(twice):
        line = int(order[twice[0] + 1]) + (2 if header else 1)
        raise DataError(f"{where}: {file}, line {line}: this user has rated this film before")
    return Ratings(user, item, table[:, 2], len(users), len(items))


def fill_gaps(
    ratings: Ratings,
    *,
    num_items: int = 40,
    rank: int = 20,
    damping: float = 10.0,
) -> NDArray[np.float64]:  # (users, num_items)
    """Every user's rating of the most-rated films, scaled to [0, 1]; gaps filled by matrix factorisation.

    Mean, user and film effects (shrunk by ``damping`` pseudo-ratings), and a truncated SVD of what is left. Ratings that are
    there stay as they are.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import svds

    if not 2 <= num_items <= ratings.num_items:
        raise DataError(f"fill_gaps: num_items must be in [2, {ratings.num_items}], got {num_items}")
    user, item, value = ratings.user, ratings.item, ratings.value
    mean = value.mean()
    rated = np.bincount(item, minlength=ratings.num_items)
    of_item = np.bincount(item, value - mean, ratings.num_items) / (rated + damping)
    left = value - mean - of_item[item]
    of_user = np.bincount(user, left, ratings.num_users) / (np.bincount(user, minlength=ratings.num_users) + damping)
    left -= of_user[user]
    shape = (ratings.num_users, ratings.num_items)
    matrix = csr_matrix((left, (user, item)), shape=shape)
    k = min(rank, min(shape) - 1)
    start = np.ones(min(shape)) / np.sqrt(min(shape))  # svds would draw it at random
    left_vectors, singular, right_vectors = svds(matrix, k=k, v0=start)
    chosen = np.sort(np.argsort(-rated, kind="stable")[:num_items])
    filled = mean + of_user[:, None] + of_item[chosen] + (left_vectors * singular) @ right_vectors[:, chosen]
    place = np.full(ratings.num_items, -1)
    place[chosen] = np.arange(num_items)
    known = place[item] >= 0
    filled[user[known], place[item[known]]] = value[known]
    low, high = value.min(), value.max()
    scaled: NDArray[np.float64] = (filled.clip(low, high) - low) / (high - low)
    return scaled
