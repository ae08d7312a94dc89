"""Settings of the report "Is learning worth it?": sources of problems, and policies for problems of any size."""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.paper.problems import problems
from experiments.paper.settings import PANELS, Panel
from experiments.seeds import generator_for, seed_for
from torch_softucb.learning.episode import Episode
from torch_softucb.policies import BanditPolicy, LinTS, LinUCB, SoftUCBPolicy
from torch_softucb.problems import synthetic_problem
from torch_softucb.problems.family import Family

Maker = Callable[[int, int], BanditPolicy]  # (dim, horizon) -> policy

_seed = functools.partial(seed_for, study="worth")


@dataclass(frozen=True)
class Setting:
    """A source of problems on which policies are compared.

    Attributes:
        title: name in tables and figures.
        draw: (split, part, count, horizon) -> one batch of ``count`` problems.
        members: number of batches that a comparison uses; above 1 the batches differ in size.
    """

    title: str
    draw: Callable[[str, int, int, int], Episode]
    members: int = 1

    def episodes(self, split: str, count: int, horizon: int) -> Iterator[Episode]:
        """Yield ``count`` problems in all, the same ones on each call."""
        for part in range(self.members):
            yield self.draw(split, part, max(8, count // self.members), horizon)

    def lesson(self, step: int, count: int, horizon: int) -> Episode:
        """Return the batch of one training step."""
        return self.draw("train", step, count, horizon)


def _panel(panel: Panel, split: str, part: int, count: int, horizon: int) -> Episode:
    problem = problems(panel, split, count, part)
    return Episode(problem, _seed(split, part, "noise"), _seed(split, part, "action"), horizon)


def _mixture(split: str, part: int, count: int, horizon: int) -> Episode:
    family = Family(horizon=(max(1, horizon // 4), 4 * horizon))  # 256 to 4096 at T = 1024
    seed = _seed(split, part, "problem")
    return Episode.of_member(family.member(seed=seed), count, seed=seed)


def _drifting(split: str, part: int, count: int, horizon: int) -> Episode:
    generator = generator_for(split, part, "problem", study="worth")
    problem = synthetic_problem(num_problems=count, dim=10, drift_rate=0.003, generator=generator)
    return Episode(problem, _seed(split, part, "noise"), _seed(split, part, "action"), horizon, discount=0.98)


def settings(real: bool) -> list[Setting]:
    """Return the six settings; without the data sets (``real`` False), the four synthetic ones."""
    panels = [panel for panel in PANELS[:4] if real or panel.source == "synthetic"]
    fixed_size = [Setting(panel.title, functools.partial(_panel, panel)) for panel in panels]
    return [*fixed_size, Setting("Mixture", _mixture, members=24), Setting("Drifting", _drifting)]


def soft(beta: float) -> Maker:
    """SoftUCB with smooth coldness at a fixed beta."""
    return lambda dim, horizon: SoftUCBPolicy(dim, beta_init=beta, coldness="smooth")


def lin_ucb(beta: float) -> Maker:
    """LinUCB at a fixed beta."""
    return lambda dim, horizon: LinUCB(dim, beta=beta)


def lin_ts(scale: float) -> Maker:
    """LinTS at a fixed posterior scale."""
    return lambda dim, horizon: LinTS(dim, scale=scale)


def final_regret(make: Maker, episodes: Iterable[Episode]) -> Tensor:  # (N,)
    """Simulate one policy per episode and return the regret of each problem at its horizon."""
    regrets = []
    for episode in episodes:
        assert episode.horizon is not None
        policy = make(episode.problem.dim, episode.horizon)
        regrets.append(episode.play(policy, horizon=episode.horizon, compile="native").regret.sum(0))
    return torch.cat(regrets)
