"""Settings of the exam: tables, units of the reward, policies, and which shuffles are reported."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from torch_softucb import AutoSoftUCB, EpsilonGreedy, LinUCB, SoftElim, SoftUCBPolicy
from torch_softucb.policies import BanditPolicy

SETS = ("mushroom", "nursery", "optdigits", "pendigits", "letter", "waveform5000")
GRID = (0.0, 0.1, 0.3, 1.0, 3.0)  # betas of LinUCB, of which the best one in hindsight is the baseline
REPORTED = (0, 1, 2, 3, 4)  # shuffles of the report
HORIZONS = (3000, 10_000)  # most rounds; tables with fewer rows are played once
DEVELOPMENT = (1000, 1001, 1002)  # shuffles on which something may be chosen
AUTO = "auto"
_DTYPE = torch.float64


class Unit(NamedTuple):
    """Rewards scale * [right] + shift.

    Attributes:
        title: name in the report.
        scale: reward of a right answer minus that of a wrong one.
        shift: reward of a wrong answer.
    """

    title: str
    scale: float
    shift: float


UNITS = (
    Unit("0 or 1", 1.0, 0.0),
    Unit("0 or 0.01 (a click worth a cent)", 0.01, 0.0),
    Unit("1 or 5 (stars)", 4.0, 1.0),
    Unit("0 or 100", 100.0, 0.0),
    Unit("-1 or 1", 2.0, -1.0),
)

Maker = Callable[[int, int], BanditPolicy]  # (number of features, rounds) -> policy


def policies() -> dict[str, Maker]:
    """Return the policies of the exam: untuned ones, and LinUCB at every beta of the grid."""
    makers: dict[str, Maker] = {
        AUTO: lambda dim, horizon: SoftUCBPolicy.auto(dim, horizon=horizon, dtype=_DTYPE),
        "auto, horizon not given": lambda dim, horizon: SoftUCBPolicy.auto(dim, dtype=_DTYPE),
        "auto without exploration (beta 0.01)": lambda dim, horizon: AutoSoftUCB(dim, beta_init=0.01, dtype=_DTYPE),
        "SoftUCB, default": lambda dim, horizon: SoftUCBPolicy(dim, dtype=_DTYPE),
        "pretrained": lambda dim, horizon: SoftUCBPolicy.pretrained(dim, horizon=horizon, dtype=_DTYPE),
        "SoftElim, default": lambda dim, horizon: SoftElim(dim, dtype=_DTYPE),
        "epsilon-greedy, 0.05": lambda dim, horizon: EpsilonGreedy(dim, epsilon=0.05, dtype=_DTYPE),
    }
    for beta in GRID:
        makers[lin_ucb(beta)] = lambda dim, horizon, beta=beta: LinUCB(dim, beta=beta, dtype=_DTYPE)  # type: ignore[misc]
    return makers


def lin_ucb(beta: float) -> str:
    """Return the name of LinUCB at a beta."""
    return f"LinUCB, beta {beta:g}" + (" (greedy)" if beta == 0 else "")
