"""MovieLens: ratings of films in (0, 5] (F. M. Harper, J. A. Konstan: The MovieLens datasets, ACM TiiS 2015)."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torch_softucb.errors import DataError
from torch_softucb.problems.tables import check_ratings, find_table, read_table


class Ratings(NamedTuple):
    """Sparse table of ratings, one entry per rating. Users and items are numbered from 0 in the order of their ids.

    Attributes:
        user: user of each rating, of shape ``(n,)``.
        item: item of each rating, of shape ``(n,)``.
        value: rating as in the file, of shape ``(n,)``.
        num_users: number of different users.
        num_items: number of different items.
    """

    user: NDArray[np.int64]  # (n,)
    item: NDArray[np.int64]  # (n,)
    value: NDArray[np.float64]  # (n,)
    num_users: int
    num_items: int


_NAMES = ["ratings.dat", "ratings_no_timestamp.dat", "u.data", "ratings.csv"]


def load_movielens(path: str | os.PathLike[str] | None = None) -> Ratings:
    """Load the ratings of MovieLens 1M, 100K or latest-small.

    Args:
        path: the file ``ratings.dat`` (user::film::rating, optionally ::timestamp), ``u.data`` (tab-separated) or
            ``ratings.csv`` (with header), or a .gz of these, or the folder that contains one; by default the first of
            ``ml-1m``, ``ml-100k`` and ``ml-latest-small`` in ``$SOFTUCB_DATA``.

    Raises:
        DataError: the file is missing or malformed; the message names the file and, if known, the line.
    """
    file, table, header = _read(path)
    first_line = 2 if header else 1
    return number_from_zero("load_movielens", *table.T, place=lambda row: f"{file}, line {first_line + row}")


def film_ids(path: str | os.PathLike[str] | None = None) -> NDArray[np.int64]:  # (num_items,)
    """Return the film id, as in the files, of each item of :func:`load_movielens`.

    Args:
        path: as in :func:`load_movielens`.
    """
    return np.unique(_read(path)[1][:, 1].astype(np.int64))


def _read(path: str | os.PathLike[str] | None) -> tuple[Path, NDArray[np.float64], bool]:
    """Return the file, its columns user, film and rating, and whether it has a header."""
    where = "load_movielens"
    file = find_table(where, path, _NAMES, ["ml-1m", "ml-100k", "ml-latest-small", "."])
    name = file.name.removesuffix(".gz")
    header = name.endswith(".csv")
    if name.endswith(".dat"):  # pandas' fast parser needs one character: "::" gives an empty column between two colons
        table = read_table(where, file, separator=":", columns=[0, 2, 4], width=[5, 7], header=False)
    elif header:
        table = read_table(where, file, separator=",", columns=[0, 1, 2], width=[3, 4], header=True)
    else:
        table = read_table(where, file, separator="\t", columns=[0, 1, 2], width=[3, 4], header=False)
    check_ratings(where, file, table[:, 2], 0.5, 5.0, header=header)
    return file, table, header


def number_from_zero(
    where: str,
    users: NDArray[Any],  # (n,) ids, numbers or texts
    items: NDArray[Any],  # (n,) likewise
    values: NDArray[np.float64],  # (n,)
    *,
    place: Callable[[int], str],
) -> Ratings:
    """Replace ids by numbers from 0, in the order of the ids, and refuse a second rating of an item by the same user.

    Args:
        where: name of the caller, for error messages.
        users: id of the user of each rating.
        items: id of the item of each rating.
        values: the ratings.
        place: function that names the place of a row in its file, for error messages.
    """
    user_ids, user = np.unique(users, return_inverse=True)
    item_ids, item = np.unique(items, return_inverse=True)
    pair = user * len(item_ids) + item
    order = np.argsort(pair, stable=True)
    repeated = np.flatnonzero(np.diff(pair[order]) == 0)
    if len(repeated):
        row = int(order[repeated[0] + 1])
        raise DataError(f"{where}: {place(row)}: this user has rated this item before; keep one of the two ratings")
    return Ratings(user, item, values, len(user_ids), len(item_ids))


def fill_gaps(
    ratings: Ratings,
    *,
    num_items: int = 40,
    rank: int = 20,
    damping: float = 10.0,
    learn_from: NDArray[np.int64] | None = None,  # (n,)
) -> NDArray[np.float64]:  # (users, num_items)
    """Complete the ratings of the most-rated items by matrix factorisation, and scale them to [0, 1].

    The model is the overall mean, an effect per item and per user, and a truncated SVD of the residuals. Ratings that exist
    are kept unchanged.

    Args:
        ratings: sparse table, from :func:`load_movielens` or :func:`~torch_softucb.problems.load_ratings`.
        num_items: number of items to return, the most-rated first.
        rank: number of singular vectors of the factorisation, which uses all items.
        damping: number of pseudo-ratings that shrink the effects towards 0.
        learn_from: users from whose ratings mean, item effects and singular vectors are learned, so that the rows of these
            users do not depend on the others; by default all users.

    Returns:
        Table of shape ``(users, num_items)`` without gaps.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import ArpackError, svds

    if not 2 <= num_items <= ratings.num_items:
        raise DataError(f"fill_gaps: num_items must be in [2, {ratings.num_items}], got {num_items}")
    user, item, value = ratings.user, ratings.item, ratings.value
    used = np.ones(len(user), dtype=bool) if learn_from is None else np.isin(user, learn_from)
    mean = value[used].mean()
    item_counts = np.bincount(item, minlength=ratings.num_items)
    used_counts = np.bincount(item[used], minlength=ratings.num_items)
    item_effect = np.bincount(item[used], value[used] - mean, ratings.num_items) / (used_counts + damping)
    residual = value - mean - item_effect[item]
    user_counts = np.bincount(user, minlength=ratings.num_users)
    user_effect = np.bincount(user, residual, ratings.num_users) / (user_counts + damping)
    residual -= user_effect[user]
    matrix = csr_matrix((residual, (user, item)), shape=(ratings.num_users, ratings.num_items))
    rows = matrix if learn_from is None else matrix[learn_from]
    k = min(rank, min(rows.shape) - 1)
    start = np.random.default_rng(0).standard_normal(min(rows.shape))  # svds would draw another one in every call
    try:
        _, _, right_vectors = svds(rows, k=k, v0=start)
    except (ArpackError, ValueError) as error:
        raise DataError(
            f"fill_gaps: ratings must come from two or more users and differ, got {ratings.num_users} users, ratings from "
            f"{value.min():g} to {value.max():g} that cannot be factorised ({error})"
        ) from error
    chosen = np.sort(np.argsort(-item_counts, stable=True)[:num_items])
    filled = mean + user_effect[:, None] + item_effect[chosen] + (matrix @ right_vectors.T) @ right_vectors[:, chosen]
    column = np.full(ratings.num_items, -1)
    column[chosen] = np.arange(num_items)
    known = column[item] >= 0
    filled[user[known], column[item[known]]] = value[known]
    low, high = value.min(), value.max()
    scaled: NDArray[np.float64] = (filled.clip(low, high) - low) / (high - low)
    return scaled
