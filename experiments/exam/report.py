"""The report of the exam, results/EXAM.md."""

import math
from typing import Any

from experiments.exam.settings import AUTO, GRID, lin_ucb
from experiments.tables import Rows, having, markdown_table

_TUNED = [lin_ucb(beta) for beta in GRID]


def _mean(rows: Rows) -> float:
    return float(sum(row["mistakes"] for row in rows) / len(rows))


def ratios(rows: Rows, rounds: int) -> dict[str, dict[str, float]]:
    """Return the mistakes of each untuned policy over those of LinUCB at the best beta in hindsight, by set."""
    found: dict[str, dict[str, float]] = {}
    here = having(rows, rounds=rounds)
    for name in dict.fromkeys(row["set"] for row in here):
        own = having(here, set=name)
        best = min(_mean(having(own, policy=tuned)) for tuned in _TUNED)
        for policy in dict.fromkeys(row["policy"] for row in own if row["policy"] not in _TUNED):
            found.setdefault(policy, {})[name] = _mean(having(own, policy=policy)) / best
    return found


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean.

    Example:
        >>> round(geometric_mean([0.5, 2.0]), 6)
        1.0
    """
    return math.exp(sum(math.log(value) for value in values) / len(values))


def _table(rows: Rows, rounds: int) -> str:
    here = having(rows, rounds=rounds)
    sets = list(dict.fromkeys(row["set"] for row in here))
    found = ratios(rows, rounds)
    lines: list[list[Any]] = []
    for policy in dict.fromkeys(row["policy"] for row in here):
        cells = [f"{_mean(having(here, set=name, policy=policy)):.0f}" for name in sets]
        of = found.get(policy)
        last = ["", ""] if of is None else [f"{geometric_mean(list(of.values())):.3f}", f"{max(of.values()):.3f}"]
        lines.append([f"**{policy}**" if policy == AUTO else policy, *cells, *last])
    return markdown_table(["policy", *sets, "geometric mean of ratios", "worst"], lines)


def report(rows: Rows, in_units: Rows, *, command: str) -> str:
    """Return the report as Markdown.

    Args:
        rows: mistakes by set, rounds, policy and shuffle.
        in_units: mean mistakes by set, unit and policy.
        command: what was run.
    """
    parts = [
        "# The exam without a number to choose",
        "",
        "Classification tables as bandits: each row is a request, each class an arm with its own theta, and only the class "
        "that was chosen is known to be right or wrong. One pass in random order, nothing is tuned. The numbers are "
        "mistakes, means over the shuffles. Ratios are to LinUCB at the best beta *in hindsight* for each set, which cannot "
        f"be known in advance. Made by `{command}`.",
    ]
    for rounds in sorted({row["rounds"] for row in rows}):
        parts += ["", f"## {rounds:,} rounds", "", _table(rows, rounds)]
    if in_units:
        parts += ["", "## The same in other units of the reward", ""]
        units = list(dict.fromkeys(row["unit"] for row in in_units))
        lines = [
            [name, policy, *[f"{_mean(having(in_units, set=name, policy=policy, unit=unit)):.0f}" for unit in units]]
            for name in dict.fromkeys(row["set"] for row in in_units)
            for policy in dict.fromkeys(row["policy"] for row in in_units)
        ]
        parts += [markdown_table(["set", "policy", *units], lines)]
    return "\n".join(parts) + "\n"
