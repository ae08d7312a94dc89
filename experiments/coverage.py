"""Does a target coverage find beta? The claim that 0.85 lands near the best fixed beta, over many settings."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from experiments.paper.policies import problems
from experiments.paper.settings import PANELS, Panel
from experiments.paper.studies import ratio
from experiments.tables import Rows
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.problems import synthetic_problem
from torch_softucb.problems.base import BanditProblem
from torch_softucb.rng import mixed_seed
from torch_softucb.simulation.rollout import rollout

TARGETS = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]
BETAS = [0.06 * 1.32**i for i in range(17)]  # 0.06 to 5.1
_SPLITS = ("sweep", "test")  # betas are chosen on the one, their regret is that on the other


class Setting(NamedTuple):
    dim: int
    noise_std: float
    num_arms: int
    horizon: int
    panel: Panel | None = None  # real data

    @property
    def title(self) -> str:
        return "Synthetic" if self.panel is None else self.panel.title


SETTINGS = [
    *(Setting(10, noise, 50, 1024) for noise in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)),
    *(Setting(d, 0.5, 50, 1024) for d in (5, 20, 30)),
    *(Setting(d, noise, 50, 1024) for d in (5, 30) for noise in (0.05, 2.0)),
    *(Setting(10, noise, 50, 256) for noise in (0.1, 0.5, 2.0)),
    *(Setting(d, 0.5, 50, 256) for d in (5, 30)),
    *(Setting(10, noise, 50, 4096) for noise in (0.1, 0.5, 2.0)),
    *(Setting(d, 0.5, 50, 4096) for d in (5, 20)),
    *(Setting(10, noise, k, 1024) for k in (10, 200) for noise in (0.1, 0.5)),
    Setting(20, 0.5, 10, 1024),
    Setting(5, 1.0, 200, 1024),
]
REAL = [Setting(p.dim, p.noise_std, 50, 1024, p) for p in PANELS if p.source != "synthetic"]


class Played(NamedTuple):
    regret: Tensor  # (B,) of the whole trajectory
    coverage: float  # share of arms and rounds with |mu - mu_hat| <= beta width


def _problem(setting: Setting, split: str, count: int) -> BanditProblem:
    if setting.panel is not None:
        return problems(setting.panel, split, count)
    generator = torch.Generator().manual_seed(mixed_seed(_SPLITS.index(split), 0, 1))
    return synthetic_problem(
        num_problems=count,
        num_arms=setting.num_arms,
        dim=setting.dim,
        noise_std=setting.noise_std,
        generator=generator,
    )


def play_beta(setting: Setting, split: str, count: int, beta: float) -> Played:
    """SoftUCB (``smooth``) at a fixed beta; every beta meets the same problems, noise and draws."""
    at = _SPLITS.index(split)
    played = rollout(
        SoftUCBPolicy(setting.dim, beta_init=beta, coldness="smooth"),
        _problem(setting, split, count),
        horizon=setting.horizon,
        generator=torch.Generator().manual_seed(mixed_seed(at, 0, 2)),
        noise_generator=torch.Generator().manual_seed(mixed_seed(at, 0, 3)),
        scores=True,
        compile="native",
    )
    return Played(played.regret.sum(0), float(played.scores["coverage"].mean()))


def beta_of(target: float, betas: list[float], coverages: list[float]) -> float:
    """Where coverage first reaches the target, by interpolation in log beta; NaN where it does not on this grid.

    Example:
        >>> round(beta_of(0.75, [1.0, 4.0], [0.5, 1.0]), 6)
        2.0
        >>> beta_of(0.75, [1.0, 4.0], [0.5, 0.6])
        nan
    """
    points = list(zip(betas, coverages, strict=True))
    for (low, under), (high, over) in itertools.pairwise(points):
        if under < target <= over:
            share = (target - under) / (over - under)
            return float(low * (high / low) ** share)
    return math.nan


def coverage_claim(
    settings: list[Setting],
    track: Callable[[Iterable[Any], str], Iterable[Any]],
    *,
    sweep: int = 192,
    test: int = 384,
) -> Rows:
    """For every setting and target: the beta of that coverage, and its regret as a ratio to the best fixed beta's.

    Both betas are chosen on ``sweep`` problems and compared on ``test`` others.
    """
    rows: Rows = []
    for setting in track(settings, "coverage"):
        rows += _rows(setting, sweep, test)
    return rows


def _rows(setting: Setting, sweep: int, test: int) -> Iterator[dict[str, Any]]:
    swept = [play_beta(setting, "sweep", sweep, beta) for beta in BETAS]
    best = min(range(len(BETAS)), key=lambda i: float(swept[i].regret.mean()))
    mark = play_beta(setting, "test", test, BETAS[best])
    about = {"setting": setting.title, "d": setting.dim, "noise": setting.noise_std, "K": setting.num_arms}
    about |= {"T": setting.horizon, "best_beta": BETAS[best], "best_regret": float(mark.regret.mean())}
    about |= {"best_coverage": mark.coverage}
    for target in TARGETS:
        beta = beta_of(target, BETAS, [played.coverage for played in swept])
        row = about | {"target": target, "beta": beta}
        if math.isnan(beta):
            yield row | {"regret": math.nan, "coverage": math.nan, "ratio": math.nan, "error": math.nan}
            continue
        ours = play_beta(setting, "test", test, beta)
        share, low, _ = ratio(ours.regret, mark.regret)
        yield row | {
            "regret": float(ours.regret.mean()),
            "coverage": ours.coverage,
            "ratio": share,
            "error": (share - low) / 1.96,
        }
