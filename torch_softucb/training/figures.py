"""Regret curves as a figure: mean and 95% band, each curve labelled at its end."""

import math
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import ColorType
from torch import Tensor

from torch_softucb.training.tags import BASELINES

NAMES = {"soft_ucb": "SoftUCB, beta frozen", "soft_ucb_online": "SoftUCB online", **BASELINES}


def regret_figure(curves: Mapping[str, Tensor], title: str = "") -> Figure:  # name -> (T, B) cumulative regret
    """Draw regret curves on a logarithmic scale; on a linear one LinTS at its theoretical scale would flatten the others."""
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.add_subplot()
    ends = []
    for name, curve in curves.items():
        curve = curve.double()
        horizon, count = curve.shape
        rounds = range(1, horizon + 1)
        mean, band = curve.mean(1), 1.96 * curve.std(1, correction=0) / math.sqrt(count)
        (line,) = axes.plot(rounds, mean, linewidth=1.8)
        axes.fill_between(rounds, mean - band, mean + band, alpha=0.2, color=line.get_color(), linewidth=0)
        ends.append((float(mean[-1]), f"{NAMES.get(name, name)}: {mean[-1]:.0f}", line.get_color(), horizon))
    axes.set(xlabel="round", ylabel="cumulative regret", xlim=(1, ends[0][3]), ylim=(1, None), yscale="log", title=title)
    axes.spines[["top", "right"]].set_visible(False)
    _label_ends(axes, ends)
    return figure


def _label_ends(axes: Axes, ends: list[tuple[float, str, ColorType, int]]) -> None:
    """Write the labels to the right of the curves, at least 11 points apart so that close curves stay readable."""
    low, high = axes.get_ylim()
    points = axes.get_window_extent().height * 72 / axes.figure.dpi
    scale = points / (math.log(high) - math.log(low))
    place = -math.inf
    for value, text, colour, horizon in sorted(ends):
        at = math.log(max(value, low)) * scale
        place = max(at, place + 11)
        axes.annotate(
            text, (horizon, value), (6, place - at), textcoords="offset points", va="center", color=colour, fontsize=9
        )
