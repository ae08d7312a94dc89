"""Settings of "Is learning worth it?": what is played, and by whom, for policies of any size."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from experiments.paper.policies import problems
from experiments.paper.settings import PANELS, Panel
from torch_softucb.learning.episode import Episode
from torch_softucb.policies import BanditPolicy, LinTS, LinUCB, SoftUCBPolicy
from torch_softucb.problems import synthetic_problem
from torch_softucb.problems.family import Family
from torch_softucb.rng import mixed_seed

Maker = Callable[[int, int], BanditPolicy]  # dim, horizon -> policy
_SPLITS = ("train", "tune", "test")


@dataclass(frozen=True)
class Setting:
    """Where regret is compared; with ``members`` above 1, problems of as many sizes."""

    title: str
    draw: Callable[[str, int, int, int], Episode]  # split, part, count, horizon -> one batch
    members: int = 1

    def games(self, split: str, count: int, horizon: int) -> Iterator[Episode]:
        """``count`` problems in all, every time the same."""
        for part in range(self.members):
            yield self.draw(split, part, max(8, count // self.members), horizon)

    def lesson(self, step: int, count: int, horizon: int) -> Episode:
        """The batch of a training step."""
        return self.draw("train", step, count, horizon)


def _seed(split: str, part: int, stream: int) -> int:
    return mixed_seed(17, _SPLITS.index(split), part, stream)


def _panel(panel: Panel, split: str, part: int, count: int, horizon: int) -> Episode:
    problem = problems(panel, {"tune": "sweep"}.get(split, split), count, part)
    return Episode(problem, _seed(split, part, 1), _seed(split, part, 2), horizon)


def _mixture(split: str, part: int, count: int, horizon: int) -> Episode:
    family = Family(horizon=(max(1, horizon // 4), 4 * horizon))  # 256 to 4096 at T = 1024
    seed = _seed(split, part, 0)
    return Episode.of_member(family.member(seed=seed), count, seed=seed)


def _drifting(split: str, part: int, count: int, horizon: int) -> Episode:
    generator = torch.Generator().manual_seed(_seed(split, part, 0))
    problem = synthetic_problem(num_problems=count, dim=10, drift_rate=0.003, generator=generator)
    return Episode(problem, _seed(split, part, 1), _seed(split, part, 2), horizon, discount=0.98)


def settings(real: bool) -> list[Setting]:
    """The six; without the data sets, four."""
    kept = [panel for panel in PANELS[:4] if real or panel.source == "synthetic"]
    found = [Setting(panel.title, functools.partial(_panel, panel)) for panel in kept]
    return [*found, Setting("Mixture", _mixture, members=24), Setting("Drifting", _drifting)]


def soft(beta: float) -> Maker:
    return lambda dim, horizon: SoftUCBPolicy(dim, beta_init=beta, coldness="smooth")


def lin_ucb(beta: float) -> Maker:
    return lambda dim, horizon: LinUCB(dim, beta=beta)


def lin_ts(scale: float) -> Maker:
    return lambda dim, horizon: LinTS(dim, scale=scale)


class Played(NamedTuple):
    regret: Tensor  # (N,) of every problem, at its horizon
    rounds: int  # that were simulated for it


def play(make: Maker, games: Iterator[Episode]) -> Played:
    """Final regrets of all problems of all games."""
    regrets, rounds = [], 0
    for game in games:
        assert game.horizon is not None
        policy = make(game.problem.dim, game.horizon)
        regrets.append(game.play(policy, horizon=game.horizon, compile="native").regret.sum(0))
        rounds += game.horizon * len(regrets[-1])
    return Played(torch.cat(regrets), rounds)
