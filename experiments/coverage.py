"""Does a target coverage find beta? Test the claim that 0.85 is close to the best fixed beta, in many settings."""

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from experiments.paper.problems import problems
from experiments.paper.settings import NUM_ARMS, PANELS, Panel, synthetic_panel
from experiments.progress import Track
from experiments.seeds import rollout_generators
from experiments.sizes import CoverageSize
from experiments.statistics import ratio
from experiments.tables import Rows
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.problems.base import BanditProblem
from torch_softucb.simulation.rollout import rollout

TARGETS = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]
BETAS = [0.06 * 1.32**i for i in range(17)]  # 0.06 to 5.1


class Case(NamedTuple):
    """One family of problems and the number of rounds."""

    panel: Panel
    horizon: int

    @property
    def title(self) -> str:
        """Name in the table: random problems of all sizes share one."""
        return "Synthetic" if self.panel.source == "synthetic" else self.panel.title


def synthetic_case(dim: int, noise_std: float, num_arms: int = NUM_ARMS, horizon: int = 1024) -> Case:
    """Return a case of random problems."""
    return Case(synthetic_panel(dim, noise_std=noise_std, num_arms=num_arms), horizon)


CASES = [
    *(synthetic_case(10, noise) for noise in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)),
    *(synthetic_case(d, 0.5) for d in (5, 20, 30)),
    *(synthetic_case(d, noise) for d in (5, 30) for noise in (0.05, 2.0)),
    *(synthetic_case(10, noise, horizon=256) for noise in (0.1, 0.5, 2.0)),
    *(synthetic_case(d, 0.5, horizon=256) for d in (5, 30)),
    *(synthetic_case(10, noise, horizon=4096) for noise in (0.1, 0.5, 2.0)),
    *(synthetic_case(d, 0.5, horizon=4096) for d in (5, 20)),
    *(synthetic_case(10, noise, k) for k in (10, 200) for noise in (0.1, 0.5)),
    synthetic_case(20, 0.5, 10),
    synthetic_case(5, 1.0, 200),
]
REAL_CASES = [Case(panel, 1024) for panel in PANELS if panel.source != "synthetic"]


class RegretAndCoverage(NamedTuple):
    """Result of one beta."""

    regret: Tensor  # (B,) of whole trajectories
    coverage: float  # share of arms and rounds with |mu - mu_hat| <= beta width


def _problem(case: Case, split: str, count: int) -> BanditProblem:
    """Draw problems: random ones from this study's seeds, real ones from those of the paper's experiments."""
    study = "coverage" if case.panel.source == "synthetic" else "paper"
    return problems(case.panel, split, count, study=study)


def simulate_beta(case: Case, split: str, count: int, beta: float) -> RegretAndCoverage:
    """Simulate SoftUCB (``smooth``) at a fixed beta; all betas meet the same problems, noise and draws."""
    trajectory = rollout(
        SoftUCBPolicy(case.panel.dim, beta_init=beta, coldness="smooth"),
        _problem(case, split, count),
        horizon=case.horizon,
        scores=True,
        compile="native",
        **rollout_generators(split, study="coverage"),
    )
    return RegretAndCoverage(trajectory.regret.sum(0), float(trajectory.scores["coverage"].mean()))


def beta_of(target: float, betas: list[float], coverages: list[float]) -> float:
    """Return the beta at which coverage first reaches the target, by interpolation in log beta; NaN if no beta reaches it.

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


def coverage_claim(cases: list[Case], size: CoverageSize, track: Track) -> Rows:
    """Compare the beta that has the target coverage with the best fixed beta, per case and target.

    Both betas are chosen on ``size.tune`` problems and compared on ``size.test`` others.
    """
    rows: Rows = []
    for case in track(cases[: size.cases], "coverage"):
        rows += _rows(case, size)
    return rows


def _rows(case: Case, size: CoverageSize) -> Iterator[dict[str, Any]]:
    tuned = [simulate_beta(case, "tune", size.tune, beta) for beta in BETAS]
    best = min(range(len(BETAS)), key=lambda i: float(tuned[i].regret.mean()))
    reference = simulate_beta(case, "test", size.test, BETAS[best])
    about = {"setting": case.title, "d": case.panel.dim, "noise": case.panel.noise_std, "K": case.panel.num_arms}
    about |= {"T": case.horizon, "best_beta": BETAS[best], "best_regret": float(reference.regret.mean())}
    about |= {"best_coverage": reference.coverage}
    for target in TARGETS:
        beta = beta_of(target, BETAS, [run.coverage for run in tuned])
        row = about | {"target": target, "beta": beta}
        if math.isnan(beta):
            yield row | {"regret": math.nan, "coverage": math.nan, "ratio": math.nan, "error": math.nan}
            continue
        ours = simulate_beta(case, "test", size.test, beta)
        share, low, _ = ratio(ours.regret, reference.regret)
        yield row | {
            "regret": float(ours.regret.mean()),
            "coverage": ours.coverage,
            "ratio": share,
            "error": (share - low) / 1.96,
        }
