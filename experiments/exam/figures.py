"""The exam's figure: mistakes of each policy over those of LinUCB at the best beta in hindsight."""

from pathlib import Path

from experiments.exam.report import horizon_of, ratios
from experiments.exam.settings import AUTO
from experiments.plots import new_figure, save_figure
from experiments.tables import Rows

_TICKS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0)


def exam_figure(rows: Rows, out: Path) -> None:
    """Draw one panel per number of rounds: a row of points per policy, one point per table."""
    horizons = sorted({horizon_of(row) for row in rows})
    figure = new_figure(5.5 * len(horizons), 4.5)
    for ax, horizon in zip(figure.subplots(1, len(horizons), sharey=True, squeeze=False)[0], horizons, strict=True):
        found = ratios(rows, horizon)
        names = list(found)[::-1]
        for i, policy in enumerate(names):
            values = list(found[policy].values())
            ax.plot(values, [i] * len(values), "o", alpha=0.7, color="tab:blue" if policy == AUTO else "tab:gray")
        ax.axvline(1.0, color="black", linewidth=0.8)
        ax.set_yticks(range(len(names)), names)
        ax.set_xscale("log")
        ax.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
        ax.minorticks_off()
        ax.set_xlabel("mistakes over LinUCB's at the best beta in hindsight")
        ax.set_title(f"at most {horizon:,} rounds, one point per table")
    save_figure(figure, out)
