"""Figures without matplotlib's global state: importing the experiments leaves the caller's backend alone."""

from pathlib import Path

from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure; sizes in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, out: Path) -> None:
    """Remove the upper and right spines and write the figure as a PNG file."""
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=120)
