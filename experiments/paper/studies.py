"""Studies behind the paper's tables and figures. Each returns rows, one table per CSV file."""

import dataclasses
import math

import torch
from torch import Tensor

from experiments.paper.policies import cumulative_regret, learn_offline, learn_online, make_policy
from experiments.paper.problems import linear_share, problems
from experiments.paper.settings import (
    BETA_CURVE,
    ETA_OFFLINE,
    ETA_ONLINE,
    ETAS,
    GRIDS,
    TABLE_1,
    TARGET_BETAS,
    Panel,
    synthetic_panel,
)
from experiments.progress import Track
from experiments.sizes import Scale
from experiments.statistics import ratio, standard_error
from experiments.tables import Rows
from torch_softucb import functional as F
from torch_softucb.problems.base import BanditProblem

SOFT_UCB = "SoftUCB, fixed beta"


def _spread(values: list[float]) -> float:
    """Relative standard deviation of the last fifth of the values."""
    tail = torch.tensor(values[-max(2, len(values) // 5) :])
    return float(tail.std(correction=0) / tail.mean())


def table_1(scale: Scale, track: Track) -> tuple[Rows, Rows]:
    """Learn beta for the five columns of Table 1; also return the learning curves of Appendix F."""
    rows: Rows = []
    curves: Rows = []
    for dim, horizon in track(TABLE_1, "Table 1"):
        run = learn_offline(synthetic_panel(dim), dataclasses.replace(scale, horizon=min(horizon, scale.horizon)))
        bound = F.beta_upper_bound(dim=dim, horizon=horizon, subgaussian_r=math.sqrt(0.1), fail_prob=0.1)
        rows.append(
            {"d": dim, "T": horizon, "bound": bound, "learned": run.last, "spread": _spread(run.beta), "eta": ETA_OFFLINE}
        )
        curves += [
            {"d": dim, "T": horizon, "trajectories": step * scale.trajectories, "beta": beta, "regret": regret}
            for step, (beta, regret) in enumerate(zip(run.beta, run.regret, strict=True))
        ]
    return rows, curves


def figure_1(scale: Scale, track: Track) -> Rows:
    """Record beta and regret while learning offline and online, d = 10."""
    panel = synthetic_panel(10)
    rows: Rows = []
    for algorithm in track(("offline", "online"), "Figure 1"):
        if algorithm == "offline":
            run = learn_offline(panel, scale)
            pairs = zip(run.beta, run.regret, strict=True)
            rows += [
                {"algorithm": algorithm, "at": step * scale.trajectories, "beta": beta, "beta_low": beta, "beta_high": beta}
                | {"regret": regret}
                for step, (beta, regret) in enumerate(pairs)
            ]
            continue
        online = learn_online(panel, problems(panel, "test", scale.test), "test", scale.horizon)
        low, high = online.beta.quantile(0.1, dim=1), online.beta.quantile(0.9, dim=1)
        for t in _points(scale.horizon):
            rows.append(
                {"algorithm": algorithm, "at": t + 1, "beta": float(online.beta[t].mean()), "beta_low": float(low[t])}
                | {"beta_high": float(high[t]), "regret": float(online.regret[t].mean())}
            )
    return rows


def _points(horizon: int, count: int = 64) -> list[int]:
    """Evenly spaced rounds, from 0, that a curve is written at."""
    return sorted({round((i + 1) * horizon / count) - 1 for i in range(count)} - {-1})


def tune(name: str, panel: Panel, scale: Scale) -> tuple[float, Rows]:
    """Return the best value of the policy's grid on the tuning problems, and the regret at each value."""
    problem = problems(panel, "tune", scale.sweep)
    rows: Rows = []
    for value in GRIDS[name][1]:
        if name == "SoftUCB online":
            regret = learn_online(panel, problem, "tune", scale.horizon, eta=value).regret
        elif name == "SoftUCB offline":
            beta = learn_offline(panel, scale, eta=value, steps=scale.short_steps).last
            regret = cumulative_regret(make_policy(SOFT_UCB, panel, scale.horizon, beta), problem, "tune", scale.horizon)
        else:
            regret = cumulative_regret(make_policy(name, panel, scale.horizon, value), problem, "tune", scale.horizon)
        rows.append({"panel": panel.title, "policy": name, "setting": GRIDS[name][0], "value": value})
        rows[-1]["regret"] = float(regret[-1].mean())
    best: float = min(rows, key=lambda row: float(row["regret"]))["value"]
    return best, rows


def _tested(name: str, panel: Panel, scale: Scale, value: float | None) -> tuple[Tensor, str]:  # (T, B)
    """Cumulative regret on the test problems, and the setting in words; ``value`` None: the paper's setting."""
    test = problems(panel, "test", scale.test)
    if name == "SoftUCB offline":
        eta = ETA_OFFLINE if value is None else value
        beta = learn_offline(panel, scale, eta=eta).last
        policy = make_policy(SOFT_UCB, panel, scale.horizon, beta)
        return cumulative_regret(policy, test, "test", scale.horizon), f"eta {eta:g}, beta {beta:.3f}"
    if name == "SoftUCB online":
        eta = ETA_ONLINE if value is None else value
        return learn_online(panel, test, "test", scale.horizon, eta=eta).regret, f"eta {eta:g}"
    regret = cumulative_regret(make_policy(name, panel, scale.horizon, value), test, "test", scale.horizon)
    return regret, "published" if value is None else f"{GRIDS[name][0]} {value:g}"


def figure_2(panels: list[Panel], scale: Scale, track: Track) -> tuple[Rows, Rows, Rows]:
    """Measure the regret of each policy on each panel, at the paper's settings and tuned.

    Returns:
        Final regrets, curves over the rounds, and the sweeps behind the tuned settings.
    """
    finals: Rows = []
    curves: Rows = []
    sweeps: Rows = []
    jobs = [(panel, name) for panel in panels for name in ("SoftUCB offline", *(n for n in GRIDS if n != "SoftUCB offline"))]
    ours: dict[tuple[str, str], Tensor] = {}
    for panel, name in track(jobs, "Figure 2"):
        best, swept = tune(name, panel, scale)
        sweeps += swept
        for variant in ("paper", "tuned"):
            if name == SOFT_UCB and variant == "paper":
                continue  # the paper has no fixed beta
            regret, setting = _tested(name, panel, scale, None if variant == "paper" else best)
            last = regret[-1]
            ours.setdefault((panel.title, variant), last)
            against = ratio(ours[panel.title, variant], last)
            finals.append({"panel": panel.title, "variant": variant, "policy": name, "setting": setting})
            finals[-1] |= {"regret": float(last.mean()), "error": standard_error(last), "slope": _slope(regret.mean(1))}
            finals[-1] |= dict(zip(("ratio", "ratio_low", "ratio_high"), against, strict=True))
            half = 1.96 * regret.std(1) / math.sqrt(regret.shape[1])
            curves += [
                {"panel": panel.title, "variant": variant, "policy": name, "t": t + 1}
                | {"regret": float(regret[t].mean()), "band": float(half[t])}
                for t in _points(scale.horizon)
            ]
    return finals, curves, sweeps


def _slope(curve: Tensor) -> float:  # (T,)
    """Slope of log regret against log t over the second half of the rounds."""
    start = len(curve) // 2
    t = torch.arange(1, len(curve) + 1, dtype=torch.float64)[start:].log()
    y = curve[start:].double().clamp(min=1e-12).log()
    return float(((t - t.mean()) * (y - y.mean())).sum() / (t - t.mean()).square().sum())


def _final_regret(name: str, panel: Panel, scale: Scale, beta: float, problem: BanditProblem, split: str) -> Tensor:  # (B,)
    return cumulative_regret(make_policy(name, panel, scale.horizon, beta), problem, split, scale.horizon)[-1]


def _mean_and_error(regret: Tensor) -> dict[str, float]:  # (B,)
    return {"regret": float(regret.mean()), "error": standard_error(regret)}


def beta_curve(panels: list[Panel], scale: Scale, track: Track) -> Rows:
    """Measure the regret of SoftUCB and LinUCB at fixed betas, and of SoftUCB at the learned beta."""
    rows: Rows = []
    for panel in track(panels, "regret(beta)"):
        test = problems(panel, "test", scale.test)
        learned = learn_offline(panel, scale, steps=scale.short_steps).last
        jobs = [(name, beta, False) for name in (SOFT_UCB, "LinUCB") for beta in BETA_CURVE]
        for name, beta, marked in [*jobs, (SOFT_UCB, learned, True)]:
            regret = _final_regret(name, panel, scale, beta, test, "test")
            rows.append({"panel": panel.title, "policy": name, "beta": beta, "learned": marked} | _mean_and_error(regret))
    return rows


def eta_sensitivity(panels: list[Panel], scale: Scale, track: Track) -> Rows:
    """Learn beta at several values of eta, and measure its regret."""
    rows: Rows = []
    for panel in track(panels, "eta"):
        test = problems(panel, "test", scale.test)
        for eta in ETAS:
            run = learn_offline(panel, scale, eta=eta, steps=scale.short_steps)
            regret = _final_regret(SOFT_UCB, panel, scale, run.last, test, "test")
            rows.append({"panel": panel.title, "eta": eta, "beta": run.last, "spread": _spread(run.beta)})
            rows[-1] |= _mean_and_error(regret)
    return rows


def cost(panels: list[Panel], scale: Scale, track: Track) -> Rows:
    """Compare the learned beta with a grid search that simulates as many trajectories."""
    rows: Rows = []
    grid = GRIDS[SOFT_UCB][1]
    for panel in track(panels, "cost of learning"):
        test = problems(panel, "test", scale.test)
        for steps in sorted({max(2, scale.steps // 25), max(3, scale.steps // 5), scale.steps}):
            budget = steps * scale.trajectories
            sample = problems(panel, "tune", max(2, budget // len(grid)), part=1)
            regrets = {beta: float(_final_regret(SOFT_UCB, panel, scale, beta, sample, "tune").mean()) for beta in grid}
            betas = {
                "learned": learn_offline(panel, scale, steps=steps).last,
                "grid search": min(regrets, key=lambda beta: regrets[beta]),
            }
            for way, beta in betas.items():
                regret = _final_regret(SOFT_UCB, panel, scale, beta, test, "test")
                rows.append({"panel": panel.title, "way": way, "trajectories": budget, "beta": beta})
                rows[-1] |= _mean_and_error(regret)
    return rows


def targets(panels: list[Panel], scale: Scale, track: Track) -> Rows:
    """Compare SoftUCB with LinUCB, both tuned, with one item after the other as the target."""
    rows: Rows = []
    jobs = [dataclasses.replace(panel, target=target) for panel in panels for target in range(scale.targets)]
    for panel in track(jobs, "targets"):
        tuning, test = (problems(panel, split, scale.sweep) for split in ("tune", "test"))
        last, best = {}, {}
        for name in (SOFT_UCB, "LinUCB"):
            regrets = {beta: float(_final_regret(name, panel, scale, beta, tuning, "tune").mean()) for beta in TARGET_BETAS}
            best[name] = min(regrets, key=lambda beta: regrets[beta])
            last[name] = _final_regret(name, panel, scale, best[name], test, "test")
        soft, lin = last[SOFT_UCB], last["LinUCB"]
        against = dict(zip(("ratio", "ratio_low", "ratio_high"), ratio(soft, lin), strict=True))
        rows.append({"panel": panel.title, "target": panel.target, "linear": linear_share(panel)})
        rows[-1] |= {"soft_ucb": float(soft.mean()), "lin_ucb": float(lin.mean()), **against}
        rows[-1] |= {"soft_ucb_beta": best[SOFT_UCB], "lin_ucb_beta": best["LinUCB"]}
    return rows
