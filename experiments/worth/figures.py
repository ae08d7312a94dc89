"""Figure of the report "Is learning worth it?"."""

from pathlib import Path

from matplotlib import colormaps

from experiments.plots import new_figure, save_figure
from experiments.tables import Rows, having
from experiments.worth.study import BASELINES, BEST_FIXED

_MARKS = "*oPXD^vs"


def learned(rows: Rows) -> Rows:
    """Return the rows of policies that have learned."""
    return [row for row in rows if row["policy"] not in BASELINES and "best fixed" not in row["policy"]]


def worth_figure(rows: Rows, curves: Rows, out: Path) -> None:
    """Draw regret against beta in each setting; learned betas as markers, policies without a single beta as lines."""
    titles = list(dict.fromkeys(row["setting"] for row in curves))
    columns = 2
    height = -(-len(titles) // columns)
    figure = new_figure(16, 4.4 * height)
    axes = figure.subplots(height, columns, squeeze=False)
    for ax, title in zip(axes.flat, titles, strict=False):
        for name, colour in ((BEST_FIXED, "#7d2e68"), ("LinUCB", "#3b6fb6"), ("LinTS", "#2f8f6b")):
            part = having(curves, setting=title, policy=name)
            x, y = [row["value"] for row in part], [row["regret"] for row in part]
            ax.plot(x, y, color=colour, linewidth=1.4, label=name.replace(", best fixed beta", ", fixed beta"))
        for i, row in enumerate(learned(having(rows, setting=title))):
            shade = colormaps["tab10"](i)
            label = f"{row['policy'].removeprefix('SoftUCB, ')}  {row['regret']:.0f}"
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
