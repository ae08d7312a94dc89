"""Is learning worth it? One page and its figures, written from the tables of worth.py, estimators.py and coverage.py."""

import math
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from experiments.paper.figures import plt, save_figure
from experiments.paper.report import markdown_table
from experiments.tables import Rows, having
from experiments.worth.study import BASELINES, best_rows

AIMS = {"Synthetic d = 10": 1.0, "Synthetic d = 20": 1.0, "Mixture": 0.9, "Jester": 0.9, "MovieLens": 0.9}
_MARKS = "*oPXD^vs"


def _ratio(row: dict[str, Any], key: str = "ratio") -> str:
    return f"{row[key]:.2f} ({row[key] - row[key + '_band']:.2f} to {row[key] + row[key + '_band']:.2f})"


def report(tables: dict[str, Rows], *, command: str, scale: str) -> str:
    parts = [
        "# Is learning worth it?",
        f"Made by `{command}`; {scale}. Everybody simulated the same number of rounds before the test, to choose the best "
        "of a 40-point grid or to learn; the test problems are others, the same for all, with the same noise. SoftUCB plays "
        "with the smooth coldness (D6) and delta 0.99 unless delta is learned; `pretrained` comes with the package and saw "
        "no problem of the setting; `trajectory, situation and delta` goes on from it. Intervals are 95%, problems paired.",
        _answer(tables["worth"]),
        *(_setting(tables["worth"], title) for title in dict.fromkeys(row["setting"] for row in tables["worth"])),
        "![regret against beta](worth.png)",
        _bias(tables["bias"]),
        _noise(tables["bias"]),
        _starts(tables["starts"]),
        *([_coverage(tables["coverage"])] if tables["coverage"] else []),
    ]
    return "\n\n".join(parts) + "\n"


def learned(rows: Rows) -> Rows:
    """Contenders that have learned."""
    return [row for row in rows if row["contender"] not in BASELINES and "best fixed" not in row["contender"]]


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
        found = {row["contender"].removeprefix("SoftUCB, "): row for row in having(rows, setting=title)}
        aim = AIMS.get(title)
        by = [] if aim is None else [name for name in SHOWN if found[name]["ratio"] <= aim]
        reached = "no aim" if aim is None else f"{aim:.1f}: " + ("; ".join(by) if by else "not reached")
        lines.append([title, found["trajectory"]["rival"], *(_ratio(found[name]) for name in SHOWN), reached])
    header = ["setting", "best tuned rival", *SHOWN, "aim at most, reached by"]
    return "## Regret over that of the best tuned rival\n" + markdown_table(header, lines)


def _setting(rows: Rows, title: str) -> str:
    table = markdown_table(
        ["contender", "beta or scale", "regret", "s.e.", "over the best tuned rival", "over the best fixed beta"],
        [
            [
                row["contender"],
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
    fine = all(abs(row["off"]) <= 3 for row in smooth)
    sure = [row for row in smooth if abs(row["difference"]) >= 3 * row["difference_error"]]
    signs = all(row["mean"] * row["difference"] > 0 for row in sure if row["estimator"] == "trajectory, state")
    header = ["beta", "differences, smooth", "trajectory, smooth", "off by, s.e."]
    header += ["differences, current", "trajectory, current", "paper's reward part"]
    return (
        "## Is the gradient right?\nd reward / d beta of a whole trajectory (d = 10, K = 50, T = 256), by central "
        "differences with common random numbers and by the estimators.\n\n" + markdown_table(header, lines) + "\n\n"
        f"- `trajectory` with `smooth`, every baseline, within 3 standard errors of the differences: {_yes(fine)}.\n"
        f"- Its sign is right wherever the difference is 3 standard errors from 0: {_yes(signs)}.\n"
        "- With `current` gamma jumps where an arm joins or leaves L, and the score function does not see the jumps.\n"
        "- The paper's reward part sees the present round only: it is negative at every beta."
    )


def _yes(holds: bool) -> str:
    return "**yes**" if holds else "**no**"


def _noise(rows: Rows) -> str:
    smooth = having(rows, coldness="smooth")
    names = list(dict.fromkeys(row["estimator"] for row in smooth))
    betas = list(dict.fromkeys(row["beta"] for row in smooth))
    by = {(row["estimator"], row["beta"]): row["error_for_given_rounds"] for row in smooth}
    table = markdown_table(
        ["estimator", *(f"beta {beta:g}" for beta in betas), "median ratio to no baseline"],
        [
            [
                name,
                *(f"{by[name, beta]:.2f}" for beta in betas),
                f"{median(by[name, beta] / by['trajectory, none', beta] for beta in betas):.2f}",
            ]
            for name in names
        ],
    )
    return "## How noisy is it?\nStandard error for 2,048 trajectories' worth of simulated rounds (T = 256).\n\n" + table


def _starts(rows: Rows) -> str:
    table = markdown_table(
        ["setting", "estimator", "from beta", "to beta", "grid's best", "regret over the grid's best", "seconds"],
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
    return "## Where does it lead?\nNo eta, one learning rate for all.\n\n" + table


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
            found = [float(row["ratio"]) for row in having(synthetic, target=target) if belongs(row)]
            if found:
                near = sum(value <= 1.1 for value in found)
                mean = math.exp(sum(map(math.log, found)) / len(found))
                cells.append(f"{mean:.2f} (max {max(found):.2f}; {near} of {len(found)})")
            else:
                cells.append("-")
        lines.append([name, *cells])
    return (
        "## Does a target coverage find beta (`eta: auto`)?\nRegret at the beta of that coverage over the best fixed "
        "beta's: geometric mean (largest; settings within 10%). Every setting is in coverage.csv.\n\n"
        + markdown_table(["settings", *(f"{target:g}" for target in targets)], lines)
        + "\n\nIt holds near noise 0.5. With little noise the best beta covers more, with much noise or a short horizon "
        "less; no single target is within 10% everywhere."
    )


def worth_figure(rows: Rows, curves: Rows, out: Path) -> None:
    """regret(beta) of every setting, every learned beta marked; rules without one beta as lines."""
    titles = list(dict.fromkeys(row["setting"] for row in curves))
    columns = 2
    figure, axes = plt.subplots(
        -(-len(titles) // columns),
        columns,
        figsize=(16, 4.4 * -(-len(titles) // columns)),
        layout="constrained",
        squeeze=False,
    )
    for ax, title in zip(axes.flat, titles, strict=False):
        for name, colour in (("SoftUCB, best fixed beta", "#7d2e68"), ("LinUCB", "#3b6fb6"), ("LinTS", "#2f8f6b")):
            part = having(curves, setting=title, policy=name)
            x, y = [row["value"] for row in part], [row["regret"] for row in part]
            ax.plot(x, y, color=colour, linewidth=1.4, label=name.replace(", best fixed beta", ", fixed beta"))
        for i, row in enumerate(learned(having(rows, setting=title))):
            shade = plt.get_cmap("tab10")(i)
            label = f"{row['contender'].removeprefix('SoftUCB, ')}  {row['regret']:.0f}"
            if row["value"] != "":
                ax.plot(row["value"], row["regret"], _MARKS[i % len(_MARKS)], color=shade, markersize=9, label=label)
            else:
                ax.axhline(row["regret"], color=shade, linewidth=1, linestyle="--", label=label)
        least = min(row["regret"] for row in having(rows, setting=title))
        ax.set(
            title=title,
            xlabel="beta (LinTS: scale)",
            xscale="log",
            yscale="log",
            ylabel="regret",
            ylim=(0.8 * least, 8 * least),
        )
        ax.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for ax in list(axes.flat)[len(titles) :]:
        ax.set_visible(False)
    save_figure(figure, out)
