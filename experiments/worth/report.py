"""The page "Is learning worth it?", written from the tables of the worth, gradient and coverage studies."""

import math
from collections.abc import Callable
from statistics import median
from typing import Any

from experiments.tables import Rows, having, markdown_table
from experiments.worth.study import best_rows

# largest ratio to the best tuned baseline that we aim for
AIMS = {"Synthetic d = 10": 1.0, "Synthetic d = 20": 1.0, "Mixture": 0.9, "Jester": 0.9, "MovieLens": 0.9}


def _ratio(row: dict[str, Any], key: str = "ratio") -> str:
    return f"{row[key]:.2f} ({row[key] - row[key + '_band']:.2f} to {row[key] + row[key + '_band']:.2f})"


def report(tables: dict[str, Rows], *, command: str, scale: str) -> str:
    """Return the page as Markdown.

    Args:
        tables: rows by name: "worth", "bias", "starts" and "coverage", the last one possibly empty.
        command: that made the tables.
        scale: numbers of problems and rounds, in words.
    """
    parts = [
        "# Is learning worth it?",
        f"Made by `{command}`; {scale}. Before the test each policy simulates the same number of rounds, either to choose "
        "the best value of a 40-point grid or to learn. The test problems and their noise are the same for all policies "
        "and were not used before. SoftUCB uses the smooth coldness (D6), with delta = 0.99 unless delta is learned. "
        "`pretrained` is the network shipped with the package, which has met no problem of the setting; `trajectory, "
        "situation and delta` trains it further. Intervals are 95%, over paired problems.",
        _answer(tables["worth"]),
        *(_setting(tables["worth"], title) for title in dict.fromkeys(row["setting"] for row in tables["worth"])),
        "![regret against beta](worth.png)",
        _bias(tables["bias"]),
        _noise(tables["bias"]),
        _starts(tables["starts"]),
        *([_coverage(tables["coverage"])] if tables["coverage"] else []),
    ]
    return "\n\n".join(parts) + "\n"


SHOWN = (
    "trajectory",
    "common random numbers",
    "trajectory, delta too",
    "trajectory, schedule and delta",
    "trajectory, situation and delta",
    "pretrained",
)


def _answer(rows: Rows) -> str:
    lines = []
    for title in dict.fromkeys(row["setting"] for row in rows):
        by_name = {row["policy"].removeprefix("SoftUCB, "): row for row in having(rows, setting=title)}
        aim = AIMS.get(title)
        reached_by = [] if aim is None else [name for name in SHOWN if by_name[name]["ratio"] <= aim]
        reached = "no aim" if aim is None else f"{aim:.1f}: " + ("; ".join(reached_by) if reached_by else "not reached")
        lines.append([title, by_name["trajectory"]["baseline"], *(_ratio(by_name[name]) for name in SHOWN), reached])
    header = ["setting", "best tuned baseline", *SHOWN, "aim (at most), reached by"]
    return "## Regret relative to the best tuned baseline\n" + markdown_table(header, lines)


def _setting(rows: Rows, title: str) -> str:
    table = markdown_table(
        ["policy", "beta or scale", "regret", "s.e.", "ratio to the best tuned baseline", "ratio to the best fixed beta"],
        [
            [
                row["policy"],
                f"{row['value']:.3g}" if row["value"] != "" else "",
                f"{row['regret']:.1f}",
                f"{row['error']:.1f}",
                _ratio(row),
                _ratio(row, "over_best_beta"),
            ]
            for row in best_rows(rows, title)
        ],
    )
    return f"## {title}\n{table}"


def _bias(rows: Rows) -> str:
    lines = []
    for row in having(rows, estimator="trajectory, state", coldness="smooth"):
        beta = row["beta"]
        (current,) = having(rows, beta=beta, coldness="current", estimator="trajectory, state")
        (paper,) = having(rows, beta=beta, coldness="smooth", estimator="paper (eta 0)")
        lines.append(
            [
                f"{beta:g}",
                f"{row['difference']:.2f} +- {row['difference_error']:.2f}",
                f"{row['mean']:.2f} +- {row['error']:.2f}",
                f"{row['off']:.1f}",
                f"{current['difference']:.2f} +- {current['difference_error']:.2f}",
                f"{current['mean']:.2f} +- {current['error']:.2f}",
                f"{paper['mean']:.2f}",
            ]
        )
    smooth = [row for row in rows if row["coldness"] == "smooth" and row["estimator"].startswith("trajectory")]
    unbiased = all(abs(row["off"]) <= 3 for row in smooth)
    significant = [row for row in smooth if abs(row["difference"]) >= 3 * row["difference_error"]]
    signs = all(row["mean"] * row["difference"] > 0 for row in significant if row["estimator"] == "trajectory, state")
    header = ["beta", "differences, smooth", "trajectory, smooth", "off by, s.e."]
    header += ["differences, current", "trajectory, current", "paper's reward part"]
    return (
        "## Is the gradient right?\nDerivative of a whole trajectory's reward with respect to beta (d = 10, K = 50, "
        "T = 256), by central differences with common random numbers and by the estimators.\n\n"
        + markdown_table(header, lines)
        + "\n\n"
        f"- `trajectory` with `smooth`, with each control variate, within 3 standard errors of the differences: "
        f"{_yes(unbiased)}.\n"
        f"- Its sign is right wherever the difference is 3 standard errors from 0: {_yes(signs)}.\n"
        "- With `current`, gamma jumps where an arm enters or leaves L; the score function does not account for the jumps.\n"
        "- The paper's reward part covers the current round only; it is negative at every beta."
    )


def _yes(holds: bool) -> str:
    return "**yes**" if holds else "**no**"


def _noise(rows: Rows) -> str:
    smooth = having(rows, coldness="smooth")
    names = list(dict.fromkeys(row["estimator"] for row in smooth))
    betas = list(dict.fromkeys(row["beta"] for row in smooth))
    by = {(row["estimator"], row["beta"]): row["error_for_given_rounds"] for row in smooth}
    table = markdown_table(
        ["estimator", *(f"beta {beta:g}" for beta in betas), "median ratio to no control variate"],
        [
            [
                name,
                *(f"{by[name, beta]:.2f}" for beta in betas),
                f"{median(by[name, beta] / by['trajectory, none', beta] for beta in betas):.2f}",
            ]
            for name in names
        ],
    )
    return (
        "## How noisy is it?\nStandard error for as many simulated rounds as 2,048 trajectories have (T = 256).\n\n" + table
    )


def _starts(rows: Rows) -> str:
    table = markdown_table(
        ["setting", "estimator", "from beta", "to beta", "grid's best", "ratio to the grid's best regret", "seconds"],
        [
            [
                row["setting"],
                row["estimator"],
                f"{row['start']:g}",
                f"{row['beta']:.3f}",
                f"{row['best_beta']:.3f}",
                _ratio(row, "over_best_beta"),
                f"{row['seconds']:.0f}",
            ]
            for row in rows
        ],
    )
    return "## Where does it lead?\nWithout eta, and with the same learning rate for all runs.\n\n" + table


def _coverage(rows: Rows) -> str:
    groups: dict[str, Callable[[dict[str, Any]], bool]] = {
        "noise <= 0.2": lambda row: row["noise"] <= 0.2,
        "noise 0.5": lambda row: row["noise"] == 0.5,
        "noise >= 1": lambda row: row["noise"] >= 1,
        "all": lambda row: True,
    }
    targets = [target for target in sorted({row["target"] for row in rows}) if target >= 0.75]
    synthetic = having(rows, setting="Synthetic")
    lines = []
    for name, belongs in groups.items():
        cells = []
        for target in targets:
            ratios = [float(row["ratio"]) for row in having(synthetic, target=target) if belongs(row)]
            if ratios:
                near = sum(value <= 1.1 for value in ratios)
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                cells.append(f"{mean:.2f} (max {max(ratios):.2f}; {near} of {len(ratios)})")
            else:
                cells.append("-")
        lines.append([name, *cells])
    return (
        "## Does a target coverage find beta (`eta: auto`)?\nRatio of the regret at the beta with that coverage to the "
        "regret at the best fixed beta: geometric mean (largest; settings within 10%). All settings are in "
        "coverage.csv.\n\n"
        + markdown_table(["settings", *(f"{target:g}" for target in targets)], lines)
        + "\n\nIt does near noise 0.5. With little noise the best beta has a higher coverage, with much noise or a short "
        "horizon a lower one; no single target is within 10% everywhere."
    )
