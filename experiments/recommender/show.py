"""Show the results of the recommender comparison: a plot, and a TensorBoard run per policy."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

_COLOURS = ["#111111", "#6b7785", "#a9a9a9", "#3b6fb6", "#2f8f6b", "#7d2e68", "#e39a3b", "#c8553d"]


def draw(panels: Mapping[str, Mapping[str, tuple[Tensor, float | None]]], out: Path) -> None:
    """Draw the cumulative regret of each policy, mean and 95% band; dashed lines are policies with a prior."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5 * len(panels), 5), layout="constrained")
    for axes, (title, results) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for number, (name, (regret, _)) in enumerate(results.items()):
            total = regret.double().cumsum(0)
            mean, half = total.mean(1), 1.96 * total.std(1) / total.shape[1] ** 0.5
            rounds, colour = range(1, len(mean) + 1), _COLOURS[number % len(_COLOURS)]
            style = "--" if "prior" in name else "-"
            axes.plot(rounds, mean, style, color=colour, label=f"{name}  {mean[-1]:.2f}", linewidth=1.6)
            axes.fill_between(rounds, mean - half, mean + half, color=colour, alpha=0.12, linewidth=0)
        axes.set(xlabel="recommendations", ylabel="cumulative regret", title=title)
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=130)


def write_runs(results: Mapping[str, tuple[Tensor, float | None]], folder: Path, writer: Callable[[str], Any]) -> None:
    """Write a TensorBoard run per policy, all with the same tag, so that TensorBoard overlays the curves."""
    for name, (regret, _) in results.items():
        run = name.replace(", ", "_").replace(" ", "_")
        with writer(str(folder / run)) as scalars:
            for t, value in enumerate(regret.double().cumsum(0).mean(1).tolist()):
                scalars.add_scalar("recommend/regret", value, t)
