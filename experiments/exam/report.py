"""The report of the exam, results/EXAM.md."""

import math
from typing import Any

from experiments.exam.settings import AUTO, GRID, HORIZONS, lin_ucb
from experiments.tables import Rows, having, markdown_table

_TUNED = [lin_ucb(beta) for beta in GRID]


def _mean(rows: Rows) -> float:
    return float(sum(row["mistakes"] for row in rows) / len(rows))


def horizon_of(row: dict[str, Any]) -> int:
    """Return the most rounds of the part that a row belongs to; tables with fewer rows end earlier.

    Example:
        >>> [horizon_of({"rounds": rounds}) for rounds in (100, 3000, 5620, 10_000)]
        [100, 3000, 10000, 10000]
    """
    rounds = int(row["rounds"])
    return rounds if rounds <= HORIZONS[0] else HORIZONS[1]


def up_to(rows: Rows, horizon: int) -> Rows:
    """Return the rows of one part."""
    return [row for row in rows if horizon_of(row) == horizon]


def ratios(rows: Rows, horizon: int) -> dict[str, dict[str, float]]:
    """Return the mistakes of each untuned policy over those of LinUCB at the best beta in hindsight, by set."""
    found: dict[str, dict[str, float]] = {}
    here = up_to(rows, horizon)
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


def _table(rows: Rows, horizon: int) -> str:
    here = up_to(rows, horizon)
    sets = list(dict.fromkeys(row["set"] for row in here))
    found = ratios(rows, horizon)
    lines: list[list[Any]] = []
    for policy in dict.fromkeys(row["policy"] for row in here):
        cells = [f"{_mean(having(here, set=name, policy=policy)):.0f}" for name in sets]
        of = found.get(policy)
        last = ["", ""] if of is None else [f"{geometric_mean(list(of.values())):.3f}", f"{max(of.values()):.3f}"]
        lines.append([f"**{policy}**" if policy == AUTO else policy, *cells, *last])
    return markdown_table(["policy", *sets, "geometric mean of ratios", "worst"], lines)


def _vowpal(rows: Rows, vowpal: Rows, single: Rows, horizon: int) -> str:
    here, theirs = having(up_to(rows, horizon), policy=AUTO), up_to(vowpal, horizon)
    lines: list[list[Any]] = []
    for name in dict.fromkeys(row["set"] for row in theirs):
        options = {row["policy"]: having(theirs, set=name, policy=row["policy"]) for row in having(theirs, set=name)}
        best = min(options, key=lambda option: _mean(options[option]))
        own = having(here, set=name)
        alone = having(up_to(single, horizon), set=name)
        mine, other = (alone or own)[0]["microseconds"], options[best][0]["microseconds"]
        times = f"{mine:.0f}", f"{other:.0f}", f"{mine / other:.1f}"
        lines.append([name, f"{_mean(own):.0f}", f"{_mean(options[best]):.0f}", best.split(", ", 1)[1], *times])
    header = [
        "set",
        "auto",
        "Vowpal Wabbit, best option",
        "option",
        "auto, us per round",
        "Vowpal Wabbit, us per round",
        "ratio",
    ]
    return markdown_table(header, lines)


def _by(rows: Rows, row: str, column: str, value: str = "regret") -> str:
    columns = list(dict.fromkeys(each[column] for each in rows))
    lines = [
        [name, *[f"{having(rows, **{row: name, column: each})[0][value]:.1f}" for each in columns]]
        for name in dict.fromkeys(each[row] for each in rows)
    ]
    return markdown_table([row, *[str(each) for each in columns]], lines)


def report(
    rows: Rows,
    in_units: Rows,
    *,
    command: str,
    found: Rows | None = None,
    vowpal: Rows | None = None,
    single: Rows | None = None,
    panels: Rows | None = None,
    tuned: Rows | None = None,
    published: Rows | None = None,
) -> str:
    """Return the report as Markdown.

    Args:
        rows: mistakes by set, rounds, policy and shuffle.
        in_units: mean mistakes by set, unit and policy.
        command: what was run.
        found: what auto found on each set.
        vowpal: rows of Vowpal Wabbit on the same shuffles, if it could be installed.
        single: time of auto without batching.
        panels: regret by panel, unit and policy.
        tuned: auto against tuned baselines.
        published: regret by policy and dimension.
    """
    parts = [
        "# The exam without a number to choose",
        "",
        "Classification tables as bandits: each row is a request, each class an arm with its own theta, and only the class "
        "that was chosen is known to be right or wrong. One pass in random order, nothing is tuned on these "
        "shuffles. The numbers are "
        "mistakes, means over the shuffles. Ratios are to LinUCB at the best beta *in hindsight* for each set, which cannot "
        "be known in advance. Policies that draw from a posterior or keep a history per arm cannot play separate models per "
        "arm, so they are not in these tables. What auto needs was chosen on synthetic problems, and its delta, its caution "
        "and one weight of its beta also on other shuffles of these tables: it has met the tables, not the shuffles. "
        f"Made by `{command}`.",
    ]
    for horizon in sorted({horizon_of(row) for row in rows}):
        parts += ["", f"## At most {horizon:,} rounds", "", _table(rows, horizon)]
    if found:
        header = ["set", "classes", "features", "right", "offset", "noise std", "std of theta", "variance explained"]
        lines = [
            [row["set"], row["classes"], row["features"], *(float(row[name]) for name in list(row)[4:])] for row in found
        ]
        parts += ["", f"## What auto found after {found[0]['rounds']:,} rounds", "", markdown_table(header, lines)]
    if in_units:
        parts += ["", "## The same in other units of the reward", ""]
        units = list(dict.fromkeys(row["unit"] for row in in_units))
        lines = [
            [name, policy, *[f"{_mean(having(in_units, set=name, policy=policy, unit=unit)):.0f}" for unit in units]]
            for name in dict.fromkeys(row["set"] for row in in_units)
            for policy in dict.fromkeys(row["policy"] for row in in_units)
        ]
        parts += [markdown_table(["set", "policy", *units], lines)]
    for horizon in sorted({horizon_of(row) for row in vowpal or []}):
        parts += ["", f"## Against Vowpal Wabbit, at most {horizon:,} rounds", ""]
        parts += [_vowpal(rows, vowpal or [], single or [], horizon)]
    if panels:
        parts += ["", "## The paper's panels: regret after 1,024 rounds, in the paper's unit", ""]
        keyed = [{**row, "setting": f"{row['panel']} ({row['unit']})"} for row in panels]
        parts += [_by(keyed, "policy", "setting")]
    if tuned:
        values = [row["ratio"] for row in tuned if row["unit"] == tuned[0]["unit"]]
        lines = [
            [
                row["setting"],
                row["unit"],
                row["baseline"],
                row["regret"],
                f"{row['ratio']:.3f}",
                f"{row['low']:.3f} to {row['high']:.3f}",
            ]
            for row in tuned
        ]
        parts += [
            "",
            "## Against tuned baselines, in the settings of WORTH.md",
            "",
            f"Ratio of regrets on the test problems; geometric mean {geometric_mean(values):.3f}, worst {max(values):.3f}. "
            "Rewards that drift are scaled but not shifted. The baselines assume, rightly, that the offset is 0; "
            "auto has to find it out, and where rewards drift it forgets what it has found.",
            "",
            markdown_table(["setting", "unit", "best tuned baseline", "auto", "ratio", "95%"], lines),
        ]
    if published:
        parts += [
            "",
            "## Environments of a published comparison (Dann, Gentile, Pacchiano 2024): regret after 1,000 rounds",
            "",
            _by(published, "policy", "dim"),
        ]
    return "\n".join(parts) + "\n"
