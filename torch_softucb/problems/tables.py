"""Find and read tables of numbers, plain text or gzip. Errors name the file and the line."""

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from torch_softucb.errors import DataError

DATA_VARIABLE = "SOFTUCB_DATA"


def find_table(where: str, path: str | os.PathLike[str] | None, names: Sequence[str], folders: Sequence[str]) -> Path:
    """Return the path of a data file.

    Args:
        where: name of the caller, for error messages.
        path: the file itself, or a folder that contains it; None searches ``folders``.
        names: accepted file names, in order of preference; each may also have the suffix .gz.
        folders: folders to search, relative to ``$SOFTUCB_DATA``.

    Raises:
        DataError: there is no such file.
    """
    if path is None:
        base = os.environ.get(DATA_VARIABLE)
        if not base:
            raise DataError(
                f"{where}: path must be a file or a folder, got None while {DATA_VARIABLE} is not set; pass the path, or "
                f"set {DATA_VARIABLE} to the folder that contains {folders[0]}/"
            )
        places = [Path(base) / folder for folder in folders]
    else:
        places = [Path(path)]
    if places[0].is_file():
        return places[0]
    for place in places:
        for name in names:
            for file in (place / name, place / f"{name}.gz"):
                if file.is_file():
                    return file
    raise DataError(
        f"{where}: expected one of {', '.join(names)} (or .gz) in {', '.join(map(str, places))}, found none; pass the path "
        f"of the file, or set {DATA_VARIABLE} to the folder that contains {folders[0]}/"
    )


def read_table(
    where: str,
    file: Path,
    *,
    separator: str,
    columns: Sequence[int],
    width: Sequence[int],
    header: bool,
) -> NDArray[np.float64]:  # (lines, len(columns))
    """Read some columns of a text table as finite numbers.

    Args:
        where: name of the caller, for error messages.
        file: path of the table, plain or .gz.
        separator: character between columns.
        columns: columns to return, counted from 0.
        width: numbers of columns that the table may have.
        header: whether the first line holds column names.

    Raises:
        DataError: the file cannot be read, or has another number of columns, or a value is not a finite number. Lines are
            counted from 1, the header included.
    """
    import pandas as pd

    first_row = 0 if header else None
    try:
        frame = pd.read_csv(file, sep=separator, header=first_row, encoding="latin-1", na_filter=False, low_memory=False)
    except (EOFError, zlib.error) as error:
        raise DataError(f"{where}: {file} is truncated or damaged ({error}); download it again") from error
    except OSError as error:
        raise DataError(f"{where}: {file} cannot be read ({error})") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise DataError(f"{where}: {file} is not a table of columns separated by {separator!r}: {error}") from error
    if frame.shape[1] not in width:
        expected = " or ".join(map(str, width))
        raise DataError(f"{where}: {file} must have {expected} columns separated by {separator!r}, got {frame.shape[1]}")
    first_line = 2 if header else 1
    parsed = []
    for column in columns:
        values = pd.to_numeric(frame.iloc[:, column], errors="coerce").to_numpy(dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            text = frame.iloc[bad[0], column]
            raise DataError(
                f"{where}: {file}, line {first_line + bad[0]}: column {column + 1} must be a number, got {str(text)!r}"
            )
        parsed.append(values)
    return np.stack(parsed, axis=1)


def check_ratings(where: str, file: Path, values: NDArray[np.float64], low: float, high: float, *, header: bool) -> None:
    """Require ratings in [low, high]; NaN means "not rated" and is accepted.

    Args:
        where: name of the caller, for error messages.
        file: file that the ratings come from.
        values: ratings of shape ``(lines,)`` or ``(lines, columns)``.
        low: smallest allowed rating.
        high: largest allowed rating.
        header: whether the first line of the file holds column names.

    Raises:
        DataError: a rating is out of range; the message names the first such line.
    """
    rows = values.reshape(len(values), -1)
    outside = (rows < low) | (rows > high)
    bad = np.flatnonzero(outside.any(axis=1))
    if len(bad):
        row = bad[0]
        line = row + (2 if header else 1)
        raise DataError(
            f"{where}: {file}, line {line}: ratings must be in [{low:g}, {high:g}], got {rows[row][outside[row]][0]:g}"
        )
