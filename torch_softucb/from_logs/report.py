"""Report of what was learned from a log: one page of Markdown and a figure."""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from torch_softucb.from_logs.evaluate import greedy_of, mean_interval, start_of
from torch_softucb.from_logs.pipeline import GREEDY, LEARNED, TUNED, LearnedFromLog
from torch_softucb.from_logs.posterior import misfit
from torch_softucb.functional import Evaluation
from torch_softucb.policies import BanditPolicy, LinUCB

_MIN_SAMPLE_SIZE = 100  # effective decisions below which the report warns about the off-policy estimate


def log_report(result: LearnedFromLog, *, source: str, figure: str = "regret.png") -> str:
    """Return the report as Markdown.

    Args:
        result: from :func:`learn_from_log`.
        source: name of the log, for the title.
        figure: file name of the figure that :func:`regret_by_beta` draws.
    """
    parts = [
        f"# What was learned from {source}",
        "All intervals are 95% intervals.",
        "**" + recommendation(result) + "**",
        _log_section(result),
        _problem_section(result),
        _policy_section(result),
        _simulation_section(result),
        f"![regret against beta]({figure})",
        _off_policy_section(result),
    ]
    return "\n\n".join(parts) + "\n"


def recommended(result: LearnedFromLog) -> BanditPolicy | None:
    """Return the policy that :func:`recommendation` names, with the statistics of the log; None for the logging policy."""
    if _is_worse_than_logged(result):
        return None
    best = _best(result)
    if best == LEARNED:
        return result.policy
    greedy = greedy_of(result.policy)
    if best == GREEDY:
        return greedy
    tuned = LinUCB(greedy.dim, beta=result.tuned_beta, **start_of(greedy), dtype=greedy.dtype, device=greedy.device)
    tuned.statistics = greedy.statistics.clone()
    return tuned


def _explorer(result: LearnedFromLog) -> str:
    """Return the better of the policies that explore: SoftUCB, unless the tuned LinUCB is significantly better."""
    return TUNED if mean_interval(result.regret[LEARNED] - result.regret[TUNED]).low > 0 else LEARNED


def _is_worse_than_logged(result: LearnedFromLog) -> bool:
    return result.value is not None and bool(result.value.model_gain.high < 0)


def _best(result: LearnedFromLog) -> str:
    """Return greedy, unless exploration earns significantly more in the simulated worlds."""
    explorer = _explorer(result)
    return explorer if mean_interval(result.regret[GREEDY] - result.regret[explorer]).low > 0 else GREEDY


def recommendation(result: LearnedFromLog) -> str:
    """Return what to deploy, in one sentence.

    Greedy, unless exploration earns significantly more in the simulated worlds; among the policies that explore, SoftUCB,
    unless the tuned LinUCB is significantly better. Neither, if the learned model does significantly worse than the logging
    policy.
    """
    regret, explorer = result.regret, _explorer(result)
    exploration = mean_interval(regret[GREEDY] - regret[explorer])
    earned = f"{exploration.value:.3g} ({exploration.low:.3g} to {exploration.high:.3g}) over {result.horizon} rounds"
    if exploration.low > 0:
        name = f"LinUCB with beta {result.tuned_beta:.3g}" if explorer == TUNED else "the learned SoftUCB"
        deploy = f"Deploy {name}: exploration is worth a reward of {earned} more than greedy"
    elif exploration.high < 0:
        deploy = f"Deploy the greedy policy: exploration costs more than it earns, {earned}"
    else:
        deploy = f"Deploy the greedy policy: exploration adds nothing significant, {earned}"
    if result.value is None:
        return f"{deploy}; whether it beats what was logged is not known without off-policy evaluation."
    gain = result.value.model_gain
    share = f"{gain.value:+.3g} ({gain.low:+.3g} to {gain.high:+.3g}) per decision"
    if _is_worse_than_logged(result):
        return f"Keep the logging policy: the greedy policy with the learned model does worse, {share}."
    proof = "beats" if gain.low > 0 else "is not shown to beat"
    return f"{deploy}; the greedy policy with the learned model {proof} what was logged, {share}."


def _interval(estimate: Evaluation) -> str:
    return f"{estimate.value:.4g} ({estimate.low:.4g} to {estimate.high:.4g})"


def _credible_interval(values: Tensor, factor: float) -> str:  # (draws,)
    """Format mean and central 95% of posterior draws times a factor."""
    low, high = torch.quantile(values * factor, torch.tensor([0.025, 0.975], dtype=values.dtype)).tolist()
    return f"{float(values.mean()) * factor:.4g} ({low:.4g} to {high:.4g})"


def _log_section(result: LearnedFromLog) -> str:
    candidates, rewarded = result.posterior.offered, result.rewarded
    missing = "" if rewarded == result.decisions else f" ({result.decisions - rewarded} without a reward are left out)"
    bandits, size = len(result.posterior.names), candidates.rows.shape[1]
    lines = [
        f"- {rewarded} decisions{missing}, {bandits} bandit{'s' * (bandits > 1)}, {result.posterior.dim} features; "
        f"mean reward {result.reward_mean:.4g}.",
        f"- Candidates: {candidates.source}; "
        + (f"always the same {size}." if candidates.fixed else f"up to {size} at a time."),
    ]
    if candidates.unseen:
        lines.append(
            f"- {candidates.unseen} times a candidate was offered that was never shown. Its features are unknown, so it is "
            "left out of everything below."
        )
    return "## The log\n" + "\n".join(lines)


def _problem_section(result: LearnedFromLog) -> str:
    theta, candidates = result.posterior.theta, result.posterior.offered
    length = float(torch.linalg.vector_norm(theta.mean, dim=-1).mean())
    uncertainty = float(theta.root.square().sum((-2, -1)).sqrt().mean())
    lines = [
        f"- Noise: standard deviation {float(theta.noise_std):.4g}; x . theta explains {result.posterior.explained:.1%} of "
        "the variance of the rewards.",
        f"- theta: length {length:.4g}, known to within {uncertainty:.2g} (root mean squared distance under the posterior); "
        f"prior standard deviation of a component {float(theta.prior_std):.3g}.",
    ]
    if (problem := misfit(result.posterior)) is not None:
        lines.append(f"- **Do not trust what follows**: {problem}.")
    if candidates.fixed and len(result.posterior.names) == 1:
        best = result.posterior.draw(4096, generator=torch.Generator().manual_seed(0)).means.argmax(-1)
        lines.append(
            f"- The same arm is the best in {float((best == best.mode().values).double().mean()):.1%} of 4096 draws."
        )
    lines.append(
        "- The longer the log, the more similar the problems that beta was learned on. beta is for starting this problem "
        "from scratch (a new user, a restart), not for other problems."
    )
    return "## Estimated problem\n" + "\n".join(lines)


def _policy_section(result: LearnedFromLog) -> str:
    betas = result.betas
    last_quarter = betas[-len(betas) // 4 :]
    return (
        "## The learned policy\n"
        f"beta = {betas[-1]:.4g} for T = {result.horizon} rounds from scratch; Eq. 5 gives {result.radius:.4g}. Learning "
        f"started at {betas[0]:.4g} and took {len(betas) - 1} steps; over the last quarter of them beta varied by "
        f"{max(last_quarter) - min(last_quarter):.2g}.\n\n"
        "The file contains beta and the statistics of the whole log, so the policy continues where the log ends. "
        "`policy.reset()` makes it start from scratch, which is what beta was learned for."
    )


def _simulation_section(result: LearnedFromLog) -> str:
    own = result.regret[LEARNED]
    rows = ["| policy | regret | regret of SoftUCB minus this |", "| --- | --- | --- |"]
    for name, regret in result.regret.items():
        gain = "" if name == LEARNED else _interval(mean_interval(own - regret))
        rows.append(f"| {name} | {_interval(mean_interval(regret))} | {gain} |")
    for decisions, regret in result.logged.items():
        rows.append(f"| what was logged, {decisions} | {_credible_interval(regret, result.horizon)} | |")
    worth = _interval(mean_interval(result.regret[GREEDY] - own))
    notes = (
        f"Exploration saves {worth} of the regret of the greedy policy. The best beta of LinUCB, {result.tuned_beta:.3g}, "
        "was chosen on other draws."
    )
    if result.logged:
        notes += " The regret of what was logged is the mean per decision under the posterior of theta, times T."
    return (
        f"## Simulation\nRegret over T = {result.horizon} rounds from scratch, on {len(own)} problems drawn from the "
        "posterior. beta was learned on other draws. All policies met the same problems and noise.\n\n"
        + "\n".join(rows)
        + f"\n\n{notes}"
    )


def _off_policy_section(result: LearnedFromLog) -> str:
    title = "## Off-policy evaluation\n"
    if result.value is None and result.posterior.offered.known:
        return (
            title
            + "Not possible: the files have no propensities, and these are estimated in memory only. Read a part of the "
            "log with `read_decisions` to evaluate it. The expected gain rests on simulation alone."
        )
    if result.value is None:
        return (
            title
            + "Not possible: the log does not contain the candidates of the decisions with their features, so the choice of "
            "another policy is unknown. Log `candidates=` or `features=` with the decisions. The expected gain rests on "
            "simulation alone."
        )
    value = result.value
    count = int(value.logged.effective_sample_size)
    sample_size, gain = float(value.policy.effective_sample_size), value.gain
    verdict = "more" if gain.low > 0 else "less" if gain.high < 0 else "not significantly more or less"
    lines = [
        f"SoftUCB learned from the earlier decisions alone, statistics and beta ({result.earlier_beta:.4g}). It was then "
        f"judged by the {count} later ones, which it never saw, without learning from them. The estimate is doubly robust, "
        "with a reward model fitted to the earlier decisions.\n",
        "| policy | mean reward |",
        "| --- | --- |",
        f"| what was logged | {_interval(value.logged)} |",
        f"| greedy, with the learned model | {_interval(value.greedy)} |",
        f"| SoftUCB, learned from the log | {_interval(value.policy)} |",
        f"| difference | {_interval(gain)} |",
        f"| what the model adds: greedy minus what was logged | {_interval(value.model_gain)} |",
        f"| what exploration costs here: SoftUCB minus greedy | {_interval(value.exploration_gain)} |",
        f"\nSoftUCB earns {verdict} than what was logged. The effective sample size is {sample_size:.0f} decisions; the "
        f"largest weight is {value.largest_weight:.3g}.",
    ]
    if value.estimated is not None:
        lines.append(
            f"\n**Propensities estimated, not logged**, by {value.estimated}. The intervals do not include the error of "
            "that model; log propensities to remove the doubt."
        )
    if sample_size < _MIN_SAMPLE_SIZE or value.largest_weight > count / 20:
        lines.append(
            "\n**Do not trust this interval**: the logging policy seldom chose what SoftUCB would choose, so the estimate "
            "rests on a few decisions. A log with more exploration would help."
        )
    return title + "\n".join(lines)


def regret_by_beta(result: LearnedFromLog) -> Figure:
    """Plot expected regret against beta on the drawn problems, with the learned beta and that of Eq. 5 marked."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    betas = list(result.curve)
    least = min(float(regret.mean()) for pair in result.curve.values() for regret in pair)
    soft_ucb, lin_ucb = zip(*result.curve.values(), strict=True)
    for name, colour, regrets in (("SoftUCB", "#7d2e68", soft_ucb), ("LinUCB", "#3b6fb6", lin_ucb)):
        means = [mean_interval(regret) for regret in regrets]
        axes.plot(betas, [float(m.value) for m in means], color=colour, label=name, linewidth=1.6)
        low, high = [float(m.low) for m in means], [float(m.high) for m in means]
        axes.fill_between(betas, low, high, color=colour, alpha=0.2, linewidth=0)
    learned = result.betas[-1]
    own = float(result.regret[LEARNED].mean())
    axes.plot(learned, own, "*", color="#c8553d", markersize=15, label=f"learned beta {learned:.3g}: {own:.4g}", zorder=5)
    axes.axvline(result.radius, color="#6b7785", linestyle=":", label=f"Eq. 5: {result.radius:.3g}")
    axes.set(
        xlabel="beta",
        ylabel=f"regret over {result.horizon} rounds",
        xscale="log",
        yscale="log" if least > 0 else "linear",
        title=f"{len(result.regret[LEARNED])} problems drawn from the log's posterior, mean and 95% band",
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
