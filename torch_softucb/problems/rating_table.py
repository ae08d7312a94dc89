"""Tables of ratings from any source: user, item and rating in the columns of a CSV or Parquet file."""

import os
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torch_softucb.errors import DataError
from torch_softucb.problems.jester import load_jester
from torch_softucb.problems.movielens import Ratings, fill_gaps, load_movielens, number_from_zero

COLUMNS = ("user", "item", "rating")
_FORMATS = (
    "a .csv or .parquet file with one rating per row, a folder of MovieLens (ratings.dat, u.data or ratings.csv), or "
    "Jester's jester-data-1.csv"
)


def load_ratings(path: str | os.PathLike[str], *, columns: Sequence[str] = COLUMNS) -> Ratings:
    """Load a table with one rating per row.

    Args:
        path: a ``.csv`` file with a header (or .gz), or a ``.parquet`` file; other columns are ignored.
        columns: names of the columns of users, items and ratings. Ids are whole numbers or texts; ratings are numbers.

    Returns:
        The ratings; users and items are numbered from 0 in the order of their ids.

    Raises:
        DataError: the file cannot be read, a column or a value is missing, a rating is not a finite number, or a user has
            rated an item twice. The message names the file and the row; rows are counted from 1, without the header.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/table.csv"
        >>> lines = ["user,item,rating", "ann,tea,4", "ann,milk,1", "bob,tea,5"]
        >>> print(*lines, sep=chr(10), file=open(path, "w"), flush=True)
        >>> ratings = load_ratings(path)
        >>> ratings.user, ratings.item, ratings.value
        (array([0, 0, 1]), array([1, 0, 1]), array([4., 1., 5.]))
    """
    where, file = "load_ratings", Path(path)
    if isinstance(columns, str) or len(columns) != 3:
        raise ValueError(f"{where}: columns must be the names of users, items and ratings, got {columns!r}; use {COLUMNS}")
    frame = _read_frame(where, file)
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise DataError(
            f"{where}: {file} must have the columns {', '.join(columns)}, got none named {', '.join(missing)} among "
            f"{', '.join(map(str, frame.columns))}; pass columns=(user, item, rating) with your names"
        )
    if not len(frame):
        raise DataError(f"{where}: {file} must have at least one row, got none")
    users, items = (_ids(where, file, name, frame[name]) for name in columns[:2])
    values = _numbers(where, file, columns[2], frame[columns[2]])
    ratings = number_from_zero(where, users, items, values, place=lambda row: f"{file}, row {row + 1}")
    if ratings.num_users < 2 or ratings.num_items < 2 or values.min() == values.max():
        raise DataError(
            f"{where}: {file} must have two or more users, items and different ratings, got {ratings.num_users} users, "
            f"{ratings.num_items} items and ratings from {values.min():g} to {values.max():g}"
        )
    return ratings


def load_rating_table(
    path: str | os.PathLike[str],
    *,
    num_items: int = 40,
    columns: Sequence[str] = COLUMNS,
    learn_from: Callable[[int], NDArray[np.int64]] | None = None,
) -> NDArray[np.float64]:  # (users, num_items)
    """Load ratings of the most-rated items as a table without gaps, scaled to [0, 1].

    Args:
        path: a CSV or Parquet file of :func:`load_ratings`; or a folder or file of MovieLens
            (:func:`~torch_softucb.problems.load_movielens`) or Jester (:func:`~torch_softucb.problems.load_jester`) under
            its original name. Gaps are filled by :func:`~torch_softucb.problems.fill_gaps`; of Jester only users who have
            rated all items are kept.
        num_items: number of items.
        columns: names of the columns, for :func:`load_ratings`.
        learn_from: function that returns, given the number of users, those from whom the values of gaps are learned; by
            default all users.

    Raises:
        DataError: the file cannot be found or read, or has fewer items.
    """
    place = Path(path)
    if not place.exists():
        raise DataError(f"load_rating_table: {place} is not there; expected {_FORMATS}")
    names = [file.name.removesuffix(".gz") for file in (sorted(place.iterdir()) if place.is_dir() else [place])]
    if "jester-data-1.csv" in names:
        return load_jester(place, num_items=num_items)
    if place.is_dir() or names[0] == "u.data" or names[0].endswith(".dat"):
        ratings = load_movielens(place)
    else:
        ratings = load_ratings(place, columns=columns)
    users = None if learn_from is None else learn_from(ratings.num_users)
    return fill_gaps(ratings, num_items=num_items, learn_from=users)


def _read_frame(where: str, file: Path) -> Any:
    import pandas as pd
    import pyarrow as pa

    name = file.name.removesuffix(".gz")
    try:
        if file.suffix == ".parquet":
            return pd.read_parquet(file)
        if name.endswith(".csv"):
            with warnings.catch_warnings():  # rows that are longer than the header would be cut
                warnings.simplefilter("error", pd.errors.ParserWarning)
                return pd.read_csv(file, keep_default_na=False, na_values=[""], low_memory=False, index_col=False)
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{where}: {file} is damaged, or is not text ({error}); use another copy") from error
    except pd.errors.ParserWarning as error:
        raise DataError(
            f"{where}: {file} has rows with more fields than the header; name all columns in the header"
        ) from error
    except (OSError, pa.ArrowException, ValueError) as error:  # pandas' parser errors are ValueErrors
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{where}: {file} cannot be read as a table ({reason})") from error
    raise DataError(f"{where}: expected {_FORMATS}, got {file}")


def _ids(where: str, file: Path, name: str, column: Any) -> NDArray[Any]:  # (n,)
    _refuse(where, file, name, column, column.isna().to_numpy(), "must be an id")
    values: NDArray[Any] = column.to_numpy()
    if np.issubdtype(values.dtype, np.floating):
        whole = np.isfinite(values) & (values == np.floor(values))
        _refuse(where, file, name, column, ~whole, "must be a whole number or a text")
    return values if np.issubdtype(values.dtype, np.number) else values.astype(np.str_)


def _numbers(where: str, file: Path, name: str, column: Any) -> NDArray[np.float64]:  # (n,)
    import pandas as pd

    values: NDArray[np.float64] = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    _refuse(where, file, name, column, ~np.isfinite(values), "must be a finite number")
    return values


def _refuse(where: str, file: Path, name: str, column: Any, bad: NDArray[np.bool_], expected: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(f"{where}: {file}, row {row + 1}: column {name} {expected}, got {str(column.iloc[row])!r}")
