"""Figures of the studies, from their rows."""

from pathlib import Path
from typing import Any

import matplotlib

from experiments.tables import Rows, having

matplotlib.use("agg")
import matplotlib.pyplot as plt

__all__ = ["beta_curve", "eta_sensitivity", "figure_1", "figure_2", "learning_curves", "plt", "save_figure"]

_COLOURS = {
    "SoftUCB offline": "#c8553d",
    "SoftUCB online": "#e39a3b",
    "SoftUCB, fixed beta": "#7d2e68",
    "LinUCB": "#3b6fb6",
    "LinTS": "#2f8f6b",
    "epsilon-greedy": "#6b7785",
    "SoftElim": "#8a63c9",
    "LinPHE": "#5fb0c9",
    "LinGiro": "#9fb84a",
    "BootstrapThompson": "#b5763a",
    "BootstrappedUCB": "#455a9c",
    "PhasedElimination": "#a9a9a9",
    "EXP3": "#d0a0b0",
}


def save_figure(figure: Any, out: Path) -> None:
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=120)
    plt.close(figure)


def learning_curves(rows: Rows, out: Path) -> None:
    """Appendix F: beta against trajectories, a panel for every column of Table 1."""
    columns = sorted({(row["d"], row["T"]) for row in rows})
    figure, axes = plt.subplots(1, len(columns), figsize=(3.1 * len(columns), 2.9), layout="constrained", sharey=True)
    for ax, (dim, horizon) in zip(axes, columns, strict=True):
        part = having(rows, d=dim, T=horizon)
        ax.plot([row["trajectories"] for row in part], [row["beta"] for row in part], color="#c8553d")
        ax.set(title=f"d = {dim}, T = {horizon}", xlabel="trajectories", ylim=(0, None))
    axes[0].set_ylabel("beta")
    save_figure(figure, out)


def figure_1(rows: Rows, out: Path) -> None:
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.2), layout="constrained")
    for start, kind in enumerate(("offline", "online")):
        part = having(rows, kind=kind)
        at = [row["at"] for row in part]
        low, high = [row["beta_low"] for row in part], [row["beta_high"] for row in part]
        axes[2 * start].fill_between(at, low, high, color="#c8553d", alpha=0.2, linewidth=0)
        for ax, key in zip(axes[2 * start :], ("beta", "regret"), strict=False):
            ax.plot(at, [row[key] for row in part], color="#c8553d")
            spread = ", mean and 10% to 90%" if (kind, key) == ("online", "beta") else ""
            ax.set(title=f"{key} ({kind}){spread}", xlabel="trajectories" if kind == "offline" else "round", ylim=(0, None))
    save_figure(figure, out)


def figure_2(curves: Rows, variant: str, out: Path) -> None:
    panels = list(dict.fromkeys(row["panel"] for row in curves))
    figure, axes = plt.subplots(
        2, (len(panels) + 1) // 2, figsize=(6.2 * ((len(panels) + 1) // 2), 8.6), layout="constrained"
    )
    for ax, panel in zip(axes.flat, panels, strict=False):
        part = having(curves, panel=panel, variant=variant)
        names = list(dict.fromkeys(row["policy"] for row in part))
        ends = {name: having(part, policy=name)[-1]["regret"] for name in names}
        for name in sorted(names, key=lambda n: ends[n]):
            line = having(part, policy=name)
            t, y, band = ([row[key] for row in line] for key in ("t", "regret", "band"))
            strong = name.startswith("SoftUCB o")
            ax.plot(t, y, color=_COLOURS[name], linewidth=2.4 if strong else 1.3, label=f"{name}  {ends[name]:.0f}")
            ax.fill_between(
                t, [a - b for a, b in zip(y, band, strict=True)], [a + b for a, b in zip(y, band, strict=True)],
                color=_COLOURS[name], alpha=0.15, linewidth=0,
            )  # fmt: skip
        ax.set(title=panel, xlabel="round", ylabel="cumulative regret", yscale="log")
        ax.set_ylim(bottom=max(1.0, 0.5 * min(ends.values()) ** 0.5))
        ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    settings = (
        "the paper's settings" if variant == "paper" else "each policy at its own best setting, tuned on other problems"
    )
    figure.suptitle(f"Figure 2, {settings} (mean and 95% band; regret at the end in the legend)")
    save_figure(figure, out)


def beta_curve(rows: Rows, out: Path) -> None:
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    figure, axes = plt.subplots(1, len(panels), figsize=(3.4 * len(panels), 3.3), layout="constrained")
    for ax, panel in zip(axes, panels, strict=True):
        for name, label in (("SoftUCB, fixed beta", "SoftUCB"), ("LinUCB", "LinUCB")):
            part = having(rows, panel=panel, policy=name, learned=False)
            x, y, error = ([row[key] for row in part] for key in ("beta", "regret", "error"))
            ax.errorbar(x, y, [1.96 * e for e in error], color=_COLOURS[name], label=label, linewidth=1.3, capsize=2)
        (end,) = having(rows, panel=panel, learned=True)
        ax.plot(
            end["beta"], end["regret"], "*", color="#c8553d", markersize=15, label=f"learned {end['beta']:.2f}", zorder=5
        )
        ax.set(title=panel, xlabel="beta", xscale="log", yscale="log", ylabel="regret" if panel == panels[0] else "")
        ax.legend(fontsize=8, frameon=False)
    save_figure(figure, out)


def eta_sensitivity(rows: Rows, out: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
    for panel, colour in zip(dict.fromkeys(row["panel"] for row in rows), ("#c8553d", "#3b6fb6"), strict=False):
        part = having(rows, panel=panel)
        eta = [max(row["eta"], 1e-4) for row in part]  # 0 is drawn at the left edge
        for ax, key in zip(axes, ("beta", "regret"), strict=True):
            ax.plot(eta, [row[key] for row in part], "o-", color=colour, label=panel)
            ax.set(xlabel="eta (left edge: 0)", ylabel=key, xscale="log", yscale="log")
    axes[0].legend(frameon=False)
    save_figure(figure, out)
