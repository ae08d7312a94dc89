"""The studies: each plays what the settings say and returns rows, a table for a CSV file."""

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from experiments.paper.policies import learn_offline, learn_online, linear_share, make, play, problems
from experiments.paper.settings import BETA_CURVE, ETA_OFFLINE, ETA_ONLINE, ETAS, GRIDS, TABLE_1, TARGET_BETAS, Panel, Scale
from experiments.tables import Rows
from torch_softucb import functional as F
from torch_softucb.problems.base import BanditProblem

Track = Callable[[Iterable[Any], str], Iterable[Any]]


def _synthetic(dim: int) -> Panel:
    return Panel(f"Synthetic d = {dim}", "synthetic", dim, 0.5, -1.0, 1.0)


def _spread(values: list[float]) -> float:
    """Standard deviation over the last fifth, as a share of its mean."""
    tail = torch.tensor(values[-max(2, len(values) // 5) :])
    return float(tail.std(correction=0) / tail.mean())


def table_1(scale: Scale, track: Track) -> tuple[Rows, Rows]:
    """Learned beta against its bound for the five columns, and the learning curves of Appendix F."""
    rows: Rows = []
    curves: Rows = []
    for dim, horizon in track(TABLE_1, "Table 1"):
        run = learn_offline(_synthetic(dim), dataclasses.replace(scale, horizon=min(horizon, scale.horizon)))
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
    """Learning curves of beta and regret, offline and online, d = 10."""
    panel = _synthetic(10)
    rows: Rows = []
    for kind in track(("offline", "online"), "Figure 1"):
        if kind == "offline":
            run = learn_offline(panel, scale)
            pairs = zip(run.beta, run.regret, strict=True)
            rows += [
                {"kind": kind, "at": step * scale.trajectories, "beta": beta, "beta_low": beta, "beta_high": beta}
                | {"regret": regret}
                for step, (beta, regret) in enumerate(pairs)
            ]
            continue
        got = learn_online(panel, problems(panel, "test", scale.test), "test", scale.horizon)
        low, high = got.beta.quantile(0.1, dim=1), got.beta.quantile(0.9, dim=1)
        for t in _points(scale.horizon):
            rows.append(
                {"kind": kind, "at": t + 1, "beta": float(got.beta[t].mean()), "beta_low": float(low[t])}
                | {"beta_high": float(high[t]), "regret": float(got.regret[t].mean())}
            )
    return rows


def _points(horizon: int, count: int = 64) -> list[int]:
    return sorted({round((i + 1) * horizon / count) - 1 for i in range(count)} - {-1})


def ratio(ours: Tensor, theirs: Tensor) -> tuple[float, float, float]:  # (B,), (B,): the same problems
    """Ratio of the mean regrets with its 95% interval, by the delta method on the pairs."""
    r = float(ours.mean() / theirs.mean())
    error = float((ours - r * theirs).std() / math.sqrt(len(ours)) / theirs.mean())
    return r, r - 1.96 * error, r + 1.96 * error


def tune(name: str, panel: Panel, scale: Scale) -> tuple[float, Rows]:
    """The best value of the policy's grid on the sweep's problems."""
    problem = problems(panel, "sweep", scale.sweep)
    rows: Rows = []
    for value in GRIDS[name][1]:
        if name == "SoftUCB online":
            regret = learn_online(panel, problem, "sweep", scale.horizon, eta=value).regret
        elif name == "SoftUCB offline":
            beta = learn_offline(panel, scale, eta=value, steps=scale.short_steps).last
            regret = play(make("SoftUCB, fixed beta", panel, scale.horizon, beta), problem, "sweep", scale.horizon)
        else:
            regret = play(make(name, panel, scale.horizon, value), problem, "sweep", scale.horizon)
        rows.append({"panel": panel.title, "policy": name, "setting": GRIDS[name][0], "value": value})
        rows[-1]["regret"] = float(regret[-1].mean())
    best: float = min(rows, key=lambda row: float(row["regret"]))["value"]
    return best, rows


def figure_2(panels: list[Panel], scale: Scale, track: Track) -> tuple[Rows, Rows, Rows]:
    """Regret of every policy on every panel, at the paper's settings and tuned; curves; sweeps."""
    finals: Rows = []
    curves: Rows = []
    sweeps: Rows = []
    jobs = [(panel, name) for panel in panels for name in ("SoftUCB offline", *(n for n in GRIDS if n != "SoftUCB offline"))]
    ours: dict[tuple[str, str], Tensor] = {}
    for panel, name in track(jobs, "Figure 2"):
        test = problems(panel, "test", scale.test)
        best, swept = tune(name, panel, scale)
        sweeps += swept
        for variant in ("paper", "tuned"):
            value = None if variant == "paper" else best
            if name == "SoftUCB offline":
                eta = ETA_OFFLINE if value is None else value
                beta = learn_offline(panel, scale, eta=eta).last
                regret = play(make("SoftUCB, fixed beta", panel, scale.horizon, beta), test, "test", scale.horizon)
                setting = f"eta {eta:g}, beta {beta:.3f}"
            elif name == "SoftUCB online":
                eta = ETA_ONLINE if value is None else value
                regret = learn_online(panel, test, "test", scale.horizon, eta=eta).regret
                setting = f"eta {eta:g}"
            elif name == "SoftUCB, fixed beta" and value is None:
                continue  # the paper has none
            else:
                regret = play(make(name, panel, scale.horizon, value), test, "test", scale.horizon)
                setting = "published" if value is None else f"{GRIDS[name][0]} {value:g}"
            last = regret[-1]
            ours.setdefault((panel.title, variant), last)
            against = ratio(ours[panel.title, variant], last)
            error = float(last.std() / math.sqrt(len(last)))
            finals.append({"panel": panel.title, "variant": variant, "policy": name, "setting": setting})
            finals[-1] |= {"regret": float(last.mean()), "error": error, "slope": _slope(regret.mean(1))}
            finals[-1] |= dict(zip(("ratio", "ratio_low", "ratio_high"), against, strict=True))
            half = 1.96 * regret.std(1) / math.sqrt(regret.shape[1])
            curves += [
                {"panel": panel.title, "variant": variant, "policy": name, "t": t + 1}
                | {"regret": float(regret[t].mean()), "band": float(half[t])}
                for t in _points(scale.horizon)
            ]
    return finals, curves, sweeps


def _slope(curve: Tensor) -> float:  # (T,)
    """Of log regret against log t over the last half."""
    start = len(curve) // 2
    t = torch.arange(1, len(curve) + 1, dtype=torch.float64)[start:].log()
    y = curve[start:].double().clamp(min=1e-12).log()
    return float(((t - t.mean()) * (y - y.mean())).sum() / (t - t.mean()).square().sum())


def beta_curve(panels: list[Panel], scale: Scale, track: Track) -> Rows:
    """Regret of SoftUCB and LinUCB at fixed betas, and at the beta that is learned."""
    rows: Rows = []
    for panel in track(panels, "regret(beta)"):
        test = problems(panel, "test", scale.test)
        learned = learn_offline(panel, scale, steps=scale.short_steps).last
        jobs = [(name, beta, False) for name in ("SoftUCB, fixed beta", "LinUCB") for beta in BETA_CURVE]
        for name, beta, marked in [*jobs, ("SoftUCB, fixed beta", learned, True)]:
            last = play(make(name, panel, scale.horizon, beta), test, "test", scale.horizon)[-1]
            error = float(last.std() / math.sqrt(len(last)))
            rows.append({"panel": panel.title, "policy": name, "beta": beta, "learned": marked})
            rows[-1] |= {"regret": float(last.mean()), "error": error}
    return rows


def eta_sensitivity(panels: list[Panel], scale: Scale, track: Track) -> Rows:
    """Where beta ends, and what it costs, for every eta."""
    rows: Rows = []
    for panel in track(panels, "eta"):
        test = problems(panel, "test", scale.test)
        for eta in ETAS:
            run = learn_offline(panel, scale, eta=eta, steps=scale.short_steps)
            end = run.last
            last = play(make("SoftUCB, fixed beta", panel, scale.horizon, end), test, "test", scale.horizon)[-1]
            rows.append({"panel": panel.title, "eta": eta, "beta": end, "spread": _spread(run.beta)})
            rows[-1] |= {"regret": float(last.mean()), "error": float(last.std() / math.sqrt(len(last)))}
    return rows


def cost(panels: list[Panel], scale: Scale, track: Track) -> Rows:
    """Regret of the beta that is learned against the best of a grid search that played as many trajectories."""
    rows: Rows = []
    grid = GRIDS["SoftUCB, fixed beta"][1]

    def regret(panel: Panel, beta: float, problem: BanditProblem, split: str) -> Tensor:
        return play(make("SoftUCB, fixed beta", panel, scale.horizon, beta), problem, split, scale.horizon)[-1]

    for panel in track(panels, "cost of learning"):
        test = problems(panel, "test", scale.test)
        for steps in sorted({max(2, scale.steps // 25), max(3, scale.steps // 5), scale.steps}):
            budget = steps * scale.trajectories
            sample = problems(panel, "sweep", max(2, budget // len(grid)), part=1)
            found = {beta: float(regret(panel, beta, sample, "sweep").mean()) for beta in grid}
            ends = {
                "learned": learn_offline(panel, scale, steps=steps).last,
                "grid search": min(found, key=lambda beta: found[beta]),
            }
            for way, beta in ends.items():
                last = regret(panel, beta, test, "test")
                rows.append({"panel": panel.title, "way": way, "trajectories": budget, "beta": beta})
                rows[-1] |= {"regret": float(last.mean()), "error": float(last.std() / math.sqrt(len(last)))}
    return rows


def targets(panels: list[Panel], scale: Scale, track: Track) -> Rows:
    """SoftUCB against LinUCB, both tuned, with one item after the other as the target."""
    rows: Rows = []
    jobs = [dataclasses.replace(panel, target=target) for panel in panels for target in range(scale.targets)]
    for panel in track(jobs, "targets"):
        sweep, test = (problems(panel, split, scale.sweep) for split in ("sweep", "test"))
        last, best = {}, {}
        for name in ("SoftUCB, fixed beta", "LinUCB"):
            found = {
                beta: float(play(make(name, panel, scale.horizon, beta), sweep, "sweep", scale.horizon)[-1].mean())
                for beta in TARGET_BETAS
            }
            best[name] = min(found, key=lambda beta: found[beta])
            last[name] = play(make(name, panel, scale.horizon, best[name]), test, "test", scale.horizon)[-1]
        soft, lin = last.values()
        against = dict(zip(("ratio", "ratio_low", "ratio_high"), ratio(soft, lin), strict=True))
        rows.append({"panel": panel.title, "target": panel.target, "linear": linear_share(panel)})
        rows[-1] |= {"soft_ucb": float(soft.mean()), "lin_ucb": float(lin.mean()), **against}
        rows[-1] |= {"soft_ucb_beta": best["SoftUCB, fixed beta"], "lin_ucb_beta": best["LinUCB"]}
    return rows
