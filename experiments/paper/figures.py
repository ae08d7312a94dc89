"""Figures of the paper's studies, drawn from their rows."""

from pathlib import Path

from experiments.plots import new_figure, save_figure
from experiments.tables import Rows, having

_OURS = "#c8553d"
_COLOURS = {
    "SoftUCB offline": _OURS,
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


def learning_curves(rows: Rows, out: Path) -> None:
    """Draw Appendix F: beta against training trajectories, one panel per column of Table 1."""
    columns = sorted({(row["d"], row["T"]) for row in rows})
    figure = new_figure(3.1 * len(columns), 2.9)
    axes = figure.subplots(1, len(columns), sharey=True)
    for ax, (dim, horizon) in zip(axes, columns, strict=True):
        part = having(rows, d=dim, T=horizon)
        ax.plot([row["trajectories"] for row in part], [row["beta"] for row in part], color=_OURS)
        ax.set(title=f"d = {dim}, T = {horizon}", xlabel="trajectories", ylim=(0, None))
    axes[0].set_ylabel("beta")
    save_figure(figure, out)


def figure_1(rows: Rows, out: Path) -> None:
    """Draw Figure 1: beta and regret while learning, offline on the left and online on the right."""
    figure = new_figure(14, 3.2)
    axes = figure.subplots(1, 4)
    for start, algorithm in enumerate(("offline", "online")):
        part = having(rows, algorithm=algorithm)
        at = [row["at"] for row in part]
        low, high = [row["beta_low"] for row in part], [row["beta_high"] for row in part]
        axes[2 * start].fill_between(at, low, high, color=_OURS, alpha=0.2, linewidth=0)
        for ax, key in zip(axes[2 * start :], ("beta", "regret"), strict=False):
            ax.plot(at, [row[key] for row in part], color=_OURS)
            spread = ", mean and 10% to 90%" if (algorithm, key) == ("online", "beta") else ""
            x = "trajectories" if algorithm == "offline" else "round"
            ax.set(title=f"{key} ({algorithm}){spread}", xlabel=x, ylim=(0, None))
    save_figure(figure, out)


def figure_2(curves: Rows, variant: str, out: Path) -> None:
    """Draw Figure 2: regret over the rounds, one panel per family of problems; ``variant`` is "paper" or "tuned"."""
    panels = list(dict.fromkeys(row["panel"] for row in curves))
    columns = (len(panels) + 1) // 2
    figure = new_figure(6.2 * columns, 8.6)
    axes = figure.subplots(2, columns)
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
    """Draw regret against beta, with the learned beta marked."""
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    figure = new_figure(3.4 * len(panels), 3.3)
    axes = figure.subplots(1, len(panels))
    for ax, panel in zip(axes, panels, strict=True):
        for name, label in (("SoftUCB, fixed beta", "SoftUCB"), ("LinUCB", "LinUCB")):
            part = having(rows, panel=panel, policy=name, learned=False)
            x, y, error = ([row[key] for row in part] for key in ("beta", "regret", "error"))
            ax.errorbar(x, y, [1.96 * e for e in error], color=_COLOURS[name], label=label, linewidth=1.3, capsize=2)
        (end,) = having(rows, panel=panel, learned=True)
        ax.plot(end["beta"], end["regret"], "*", color=_OURS, markersize=15, label=f"learned {end['beta']:.2f}", zorder=5)
        ax.set(title=panel, xlabel="beta", xscale="log", yscale="log", ylabel="regret" if panel == panels[0] else "")
        ax.legend(fontsize=8, frameon=False)
    save_figure(figure, out)


def eta_sensitivity(rows: Rows, out: Path) -> None:
    """Draw the learned beta and its regret against eta."""
    figure = new_figure(9, 3.3)
    axes = figure.subplots(1, 2)
    for panel, colour in zip(dict.fromkeys(row["panel"] for row in rows), (_OURS, "#3b6fb6"), strict=False):
        part = having(rows, panel=panel)
        eta = [max(row["eta"], 1e-4) for row in part]  # 0 is drawn at the left edge
        for ax, key in zip(axes, ("beta", "regret"), strict=True):
            ax.plot(eta, [row[key] for row in part], "o-", color=colour, label=panel)
            ax.set(xlabel="eta (left edge: 0)", ylabel=key, xscale="log", yscale="log")
    axes[0].legend(frameon=False)
    save_figure(figure, out)
