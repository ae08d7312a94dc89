"""Tables of the studies: a list of rows, as a CSV file holds them."""

from typing import Any

Rows = list[dict[str, Any]]


def having(rows: Rows, **match: Any) -> Rows:
    """The rows that have these values.

    Example:
        >>> having([{"d": 5, "beta": 0.5}, {"d": 10, "beta": 0.6}], d=10)
        [{'d': 10, 'beta': 0.6}]
    """
    return [row for row in rows if all(row[key] == value for key, value in match.items())]
