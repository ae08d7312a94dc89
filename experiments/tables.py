"""Tables of the studies: a list of rows, as a CSV file holds them."""

import csv
import json
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]


def having(rows: Rows, **match: Any) -> Rows:
    """The rows that have these values.

    Example:
        >>> having([{"d": 5, "beta": 0.5}, {"d": 10, "beta": 0.6}], d=10)
        [{'d': 10, 'beta': 0.6}]
    """
    return [row for row in rows if all(row[key] == value for key, value in match.items())]


def save(rows: Rows, out: Path, name: str, about: dict[str, Any]) -> None:
    """A CSV file, and beside it the settings and the command that made it."""
    with (out / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{value:.7g}" if isinstance(value, float) else value for key, value in row.items()})
    (out / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n")


def load(out: Path, name: str) -> Rows:
    def value(text: str) -> Any:
        if text in ("True", "False"):
            return text == "True"
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
        return text

    path = out / f"{name}.csv"
    if not path.exists():
        raise SystemExit(f"reproduce: {path} is not there; run the part that makes it, or all")
    with path.open(newline="") as file:
        return [{key: value(text) for key, text in row.items()} for row in csv.DictReader(file)]
