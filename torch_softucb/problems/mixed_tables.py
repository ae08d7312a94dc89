"""Tables whose columns hold numbers or categories: ARFF and CSV, plain text or gzip. Errors name the file and the line."""

import csv
import gzip
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from torch_softucb.errors import DataError

_ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|\S+)\s+(.+)""", re.IGNORECASE)
_NUMERIC = ("numeric", "real", "integer")


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: name of the column.
        categories: allowed values of a categorical column, in order; None for a column of numbers.
        values: one entry per row: a category or a number; None where the value is missing (``?`` or empty).
    """

    name: str
    categories: tuple[str, ...] | None
    values: list[str | float | None]


def read_mixed_table(where: str, file: Path) -> list[Column]:
    """Read all columns of an ARFF file (``.arff``) or of a CSV file with a header.

    A CSV column is numeric if all its values are numbers, and categorical otherwise.

    Args:
        where: name of the caller, for error messages.
        file: path of the table, plain or .gz.

    Raises:
        DataError: the file cannot be read, or a line does not fit its header. Lines are counted from 1.
    """
    is_arff = file.name.removesuffix(".gz").endswith(".arff")
    try:
        text = (gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()).decode("latin-1")
    except (EOFError, zlib.error) as error:
        raise DataError(f"{where}: {file} is truncated or damaged ({error}); download it again") from error
    except OSError as error:
        raise DataError(f"{where}: {file} cannot be read ({error})") from error
    columns = _read_arff(where, file, text.splitlines()) if is_arff else _read_csv(where, file, text.splitlines())
    if not columns or not columns[0].values:
        raise DataError(f"{where}: {file} must have at least one row, got none")
    return columns


def _read_arff(where: str, file: Path, lines: list[str]) -> list[Column]:
    columns: list[Column] = []
    numbered = ((number, line.strip()) for number, line in enumerate(lines, start=1))
    content = ((number, line) for number, line in numbered if line and not line.startswith("%"))
    for number, line in content:
        keyword = line.split(maxsplit=1)[0].lower()
        if keyword == "@attribute":
            columns.append(_attribute(where, file, number, line))
        elif keyword == "@data":
            break
        elif keyword != "@relation":
            raise DataError(f"{where}: {file}, line {number}: expected @relation, @attribute or @data, got {line[:40]!r}")
    else:
        raise DataError(f"{where}: {file} must have a line @data, got none; is this an ARFF file?")
    for number, cells in _cells(content):
        _add_row(where, file, number, columns, cells)
    return columns


def _attribute(where: str, file: Path, number: int, line: str) -> Column:
    match = _ATTRIBUTE.match(line)
    declared = match[2].strip() if match else ""
    if match and declared.lower() in _NUMERIC:
        return Column(_unquoted(match[1]), None, [])
    if match and declared.startswith("{") and declared.endswith("}"):
        return Column(_unquoted(match[1]), tuple(next(_cells([(number, declared[1:-1])]))[1]), [])
    raise DataError(
        f"{where}: {file}, line {number}: expected '@attribute name numeric' or '@attribute name {{a, b}}', got "
        f"{line[:60]!r}"
    )


def _read_csv(where: str, file: Path, lines: list[str]) -> list[Column]:
    rows = list(_cells((number, line) for number, line in enumerate(lines, start=1) if line.strip()))
    if not rows:
        return []
    names = rows[0][1]
    columns = []
    for i, name in enumerate(names):
        present = [cells[i] for _, cells in rows[1:] if i < len(cells) and cells[i] not in ("", "?")]
        numeric = bool(present) and all(_number(cell) is not None for cell in present)
        columns.append(Column(name, None if numeric else tuple(sorted(set(present))), []))
    for number, cells in rows[1:]:
        _add_row(where, file, number, columns, cells)
    return columns


def _cells(lines: Iterator[tuple[int, str]] | list[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Split lines at commas; values may be quoted with ' or "."""
    for number, line in lines:
        quote = "'" if "'" in line else '"'
        row = next(csv.reader([line], skipinitialspace=True, quotechar=quote))
        yield number, [cell.strip() for cell in row]


def _add_row(where: str, file: Path, number: int, columns: list[Column], cells: list[str]) -> None:
    if len(cells) != len(columns):
        raise DataError(f"{where}: {file}, line {number}: expected {len(columns)} values, got {len(cells)}")
    for column, cell in zip(columns, cells, strict=True):
        if cell in ("", "?"):
            column.values.append(None)
        elif column.categories is None:
            value = _number(cell)
            if value is None:
                raise DataError(f"{where}: {file}, line {number}: column {column.name} must be a number, got {cell!r}")
            column.values.append(value)
        elif cell in column.categories:
            column.values.append(cell)
        else:
            raise DataError(
                f"{where}: {file}, line {number}: column {column.name} must be one of {', '.join(column.categories[:8])}, "
                f"got {cell!r}"
            )


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _unquoted(name: str) -> str:
    return name[1:-1] if name[0] in "'\"" else name
