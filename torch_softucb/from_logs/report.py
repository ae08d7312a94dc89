"""The report of what was learned from a log: one page of Markdown and a figure."""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from torch_softucb.from_logs.pipeline import LEARNED, LearnedFromLog
from torch_softucb.from_logs.simulate import mean_interval
from torch_softucb.functional import Evaluation

_FEW = 100  # decisions; below, an off-policy estimate rests on too little


def _interval(found: Evaluation, digits: int = 4) -> str:
    return f"{found.value:.{digits}g} ({found.low:.{digits}g} to {found.high:.{digits}g})"


def _spread(values: Tensor, factor: float = 1.0) -> str:  # (draws,) of a posterior
    low, high = torch.quantile(values * factor, torch.tensor([0.025, 0.975], dtype=values.dtype)).tolist()
    return f"{float(values.mean()) * factor:.4g} ({low:.4g} to {high:.4g})"


def log_report(found: LearnedFromLog, *, source: str, figure: str = "regret.png") -> str:
    """Markdown; ``source`` names the log, ``figure`` the file of :func:`regret_by_beta`."""
    beta = found.betas[-1]
    parts = [
        f"# What was learned from {source}",
        "All intervals are of 95%.",
        _log(found),
        _posterior(found),
        "## The learned policy\n"
        f"beta = {beta:.4g} for T = {found.horizon} rounds from nothing; Eq. 5 asks for {found.radius:.4g}. It began at "
        f"{found.betas[0]:.4g} and took {len(found.betas) - 1} steps; over the last quarter of them it moved by "
        f"{max(tail := found.betas[-len(found.betas) // 4 :]) - min(tail):.2g}.\n\n"
        "The file holds beta and the statistics of the whole log: the policy knows what the log knows. `policy.reset()` "
        "makes it begin from nothing, which is what beta was learned for.",
        _simulated(found),
        f"![regret against beta]({figure})",
        _off_policy(found),
    ]
    return "\n\n".join(parts) + "\n"


def _log(found: LearnedFromLog) -> str:
    offered, rewarded = found.posterior.offered, len(found.posterior.owner)
    left = "" if rewarded == found.decisions else f" ({found.decisions - rewarded} without a reward are left out)"
    bandits = len(found.posterior.names)
    lines = [
        f"- {rewarded} decisions{left}, {bandits} bandit{'s' * (bandits > 1)}, {found.posterior.dim} features; "
        f"mean reward {found.reward_mean:.4g}.",
        f"- What was on offer: {offered.source}; "
        + (f"always the same {offered.rows.shape[1]}." if offered.fixed else f"up to {offered.rows.shape[1]} at a time."),
    ]
    if offered.unseen:
        lines.append(
            f"- {offered.unseen} times a candidate was on offer that was never shown: it is left out, in all below."
        )
    return "## The log\n" + "\n".join(lines)


def _posterior(found: LearnedFromLog) -> str:
    theta, offered = found.posterior.theta, found.posterior.offered
    length = float(torch.linalg.vector_norm(theta.mean, dim=-1).mean())
    doubt = float(theta.root.square().sum((-2, -1)).sqrt().mean())
    lines = [
        f"- Noise: standard deviation {float(theta.noise_std):.4g}; x . theta explains {found.posterior.explained:.1%} of "
        "the reward's variance.",
        f"- theta: length {length:.4g}, known to within {doubt:.2g} (root of the posterior's mean squared distance); prior "
        f"standard deviation of a component {float(theta.prior_std):.3g}.",
    ]
    if offered.fixed and len(found.posterior.names) == 1:
        best = found.posterior.draw(4096, generator=torch.Generator().manual_seed(0)).means.argmax(-1)
        lines.append(
            f"- The same arm is the best in {float((best == best.mode().values).double().mean()):.1%} of 4096 draws."
        )
    lines.append(
        "- The surer the log, the more alike the problems that beta was learned on: beta is for this problem, met anew (a "
        "new user, a restart), not for others. A drawn problem keeps its candidates in all rounds."
    )
    return "## What the log says of the problem\n" + "\n".join(lines)


def _simulated(found: LearnedFromLog) -> str:
    own = found.regret[LEARNED]
    lines = ["| policy | regret | SoftUCB's regret less its |", "| --- | --- | --- |"]
    for name, regret in found.regret.items():
        gain = "" if name == LEARNED else _interval(mean_interval(own - regret))
        lines.append(f"| {name} | {_interval(mean_interval(regret))} | {gain} |")
    for which, regret in found.logged.items():
        lines.append(f"| what was logged, {which} | {_spread(regret, found.horizon)} | |")
    best = min(found.curve, key=lambda beta: float(found.curve[beta][1].mean()))
    least = _interval(mean_interval(found.curve[best][1]))
    told = f"\n\nLinUCB's best beta of the figure, chosen on these very problems, is {best:.3g}: {least}."
    if found.logged:
        told += " What was logged is its mean regret a decision, by theta's posterior, times T."
    return (
        f"## Expected by simulation\nRegret over T = {found.horizon} rounds from nothing, on {len(own)} problems drawn from "
        "the posterior, none of which beta was learned on; all policies met the same problems and noise.\n\n"
        + "\n".join(lines)
        + told
    )


def _off_policy(found: LearnedFromLog) -> str:
    title = "## Expected by off-policy evaluation\n"
    if found.value is None:
        return (
            title + "Not possible: the log does not say what was on offer, and what the policy would have chosen cannot be "
            "known. Log `candidates=` or `features=` with the decisions. What is expected rests on simulation alone."
        )
    value = found.value
    count = int(value.logged.effective_sample_size)
    size, gain = float(value.policy.effective_sample_size), value.gain
    verdict = "more" if gain.low > 0 else "less" if gain.high < 0 else "not surely more or less"
    lines = [
        f"SoftUCB learned from the earlier decisions alone (statistics, and a beta of its own, {found.earlier_beta:.4g}), "
        f"then was judged by the {count} later ones, which it never saw (doubly robust; the reward model is from the "
        "earlier ones, too). It is judged as it is, without what it would learn along the way.\n",
        "| policy | mean reward |",
        "| --- | --- |",
        f"| what was logged | {_interval(value.logged)} |",
        f"| SoftUCB, learned from the log | {_interval(value.policy)} |",
        f"| difference | {_interval(gain)} |",
        f"\nSoftUCB earns {verdict} than what was logged. The estimate rests on {size:.0f} decisions' worth of overlap; the "
        f"largest weight is {value.largest_weight:.3g}.",
    ]
    if size < _FEW or value.largest_weight > count / 20:
        lines.append(
            "\n**Do not trust this interval**: the logging policy seldom chose what SoftUCB would choose, and a few "
            "decisions decide it. A log that explored more would tell."
        )
    return title + "\n".join(lines)


def regret_by_beta(found: LearnedFromLog) -> Figure:
    """Expected regret against beta on the drawn problems, the learned beta and Eq. 5's marked."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    betas, least = list(found.curve), min(float(regret.mean()) for pair in found.curve.values() for regret in pair)
    for place, (name, colour) in enumerate((("SoftUCB", "#7d2e68"), ("LinUCB", "#3b6fb6"))):
        means = [mean_interval(pair[place]) for pair in found.curve.values()]
        axes.plot(betas, [float(m.value) for m in means], color=colour, label=name, linewidth=1.6)
        low, high = [float(m.low) for m in means], [float(m.high) for m in means]
        axes.fill_between(betas, low, high, color=colour, alpha=0.2, linewidth=0)
    learned = found.betas[-1]
    own = float(found.regret[LEARNED].mean())
    axes.plot(learned, own, "*", color="#c8553d", markersize=15, label=f"learned beta {learned:.3g}: {own:.4g}", zorder=5)
    axes.axvline(found.radius, color="#6b7785", linestyle=":", label=f"Eq. 5: {found.radius:.3g}")
    axes.set(
        xlabel="beta",
        ylabel=f"regret over {found.horizon} rounds",
        xscale="log",
        yscale="log" if least > 0 else "linear",
        title=f"{len(found.regret[LEARNED])} problems drawn from the log's posterior, mean and 95% band",
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
