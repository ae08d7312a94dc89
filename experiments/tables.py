"""Tables of the studies: lists of rows in memory, CSV files on disk, Markdown in the reports."""

import csv
import json
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]

# table: our column: its name in the published CSV files, which keep their first names
PUBLISHED = {"figure1": {"algorithm": "kind"}, "worth": {"policy": "contender", "baseline": "rival"}}


def having(rows: Rows, **match: Any) -> Rows:
    """Return the rows that have these values.

    Example:
        >>> having([{"d": 5, "beta": 0.5}, {"d": 10, "beta": 0.6}], d=10)
        [{'d': 10, 'beta': 0.6}]
    """
    return [row for row in rows if all(row[key] == value for key, value in match.items())]


def save(rows: Rows, out: Path, name: str, about: dict[str, Any]) -> None:
    """Write rows as ``name.csv``, and the settings and the command behind them as ``name.json``.

    Floats keep seven digits. Columns listed in :data:`PUBLISHED` are written under the names of the published files.

    Args:
        rows: at least one; the first one's keys are the columns.
        out: existing folder.
        name: of the table, without a suffix.
        about: settings and command, as JSON.
    """
    columns = {key: PUBLISHED.get(name, {}).get(key, key) for key in rows[0]}
    with (out / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(columns.values()))
        writer.writeheader()
        for row in rows:
            texts = {columns[key]: f"{value:.7g}" if isinstance(value, float) else value for key, value in row.items()}
            writer.writerow(texts)
    (out / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n")


def load(out: Path, name: str) -> Rows:
    """Read the rows that :func:`save` wrote; numbers and booleans get their types back.

    Raises:
        FileNotFoundError: the table has not been written yet.
    """
    path = out / f"{name}.csv"
    if not path.exists():
        raise FileNotFoundError(f"load: {path} is not there; run the part that makes it, or all parts")
    columns = {published: key for key, published in PUBLISHED.get(name, {}).items()}
    with path.open(newline="") as file:
        return [{columns.get(key, key): _parsed(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _parsed(text: str) -> bool | int | float | str:
    if text in ("True", "False"):
        return text == "True"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def markdown_table(header: list[str], rows: list[list[Any]]) -> str:
    """Return a Markdown table; floats with three digits.

    Example:
        >>> print(markdown_table(["d", "beta"], [[5, 0.61234]]))
        | d | beta |
        | --- | --- |
        | 5 | 0.612 |
    """

    def text(cell: Any) -> str:
        return f"{cell:.3g}" if isinstance(cell, float) else str(cell)

    lines = [header, ["---"] * len(header), *[[text(cell) for cell in row] for row in rows]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
