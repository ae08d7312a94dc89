"""Reading number tables that people bring: plain text or gzip, every fault named with its file and line."""

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torch_softucb.errors import DataError

DATA_VARIABLE = "SOFTUCB_DATA"


def find_table(where: str, path: str | os.PathLike[str] | None, names: Sequence[str], folders: Sequence[str]) -> Path:
    """The file at ``path``, or the first of ``names`` (or its .gz) in ``path`` or in a folder of ``$SOFTUCB_DATA``."""
    if path is None:
        base = os.environ.get(DATA_VARIABLE)
        if not base:
            raise DataError(f"{where}: path must be a file or folder; none was given and {DATA_VARIABLE} is not set")
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
    wanted = ", ".join(names)
    raise DataError(
        f"{where}: expected one of {wanted} (or .gz) in {', '.join(map(str, places))}, found none; "
        f"give the file's path, or set {DATA_VARIABLE} to the folder above"
    )


def read_table(
    where: str,
    file: Path,
    *,
    separator: str,
    columns: Sequence[int],  # which to keep, from 0
    width: Sequence[int],  # how many columns a line may have
    header: bool,
) -> NDArray[np.float64]:  # (lines, len(columns))
    """The chosen columns as numbers. Lines count from 1, the header included."""
    import pandas as pd

    kind: dict[str, Any] = {"sep": separator, "header": 0 if header else None, "encoding": "latin-1", "na_filter": False}
    try:
        frame = pd.read_csv(file, low_memory=False, **kind)
    except (EOFError, zlib.error) as error:
        raise DataError(f"{where}: {file} is cut off or damaged ({error}); download it again") from error
    except OSError as error:
        raise DataError(f"{where}: {file} cannot be read ({error})") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise DataError(f"{where}: {file} is not a table of columns separated by {separator!r}: {error}") from error
    if frame.shape[1] not in width:
        wanted = " or ".join(map(str, width))
        raise DataError(f"{where}: {file} must have {wanted} columns separated by {separator!r}, got {frame.shape[1]}")
    first = 2 if header else 1
    kept = []
    for column in columns:
        values = pd.to_numeric(frame.iloc[:, column], errors="coerce").to_numpy(dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            text = frame.iloc[bad[0], column]
            raise DataError(
                f"{where}: {file}, line {first + bad[0]}: column {column + 1} must be a number, got {str(text)!r}"
            )
        kept.append(values)
    return np.stack(kept, axis=1)


def check_range(where: str, file: Path, values: NDArray[np.float64], low: float, high: float, *, header: bool) -> None:
    """``values`` (lines,) or (lines, columns) must lie in [low, high]; NaN is not looked at."""
    rows = values.reshape(len(values), -1)
    bad = np.flatnonzero(((rows < low) | (rows > high)).any(axis=1))
    if len(bad):
        line = bad[0]
        wrong = rows[line][(rows[line] < low) | (rows[line] > high)][0]
        number = line + (2 if header else 1)
        raise DataError(f"{where}: {file}, line {number}: ratings must be in [{low:g}, {high:g}], got {wrong:g}")
