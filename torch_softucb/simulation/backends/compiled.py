"""A round of a simulation under ``torch.compile``: one graph from the decision to the updated statistics."""

import functools
import os
import shutil
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from torch_softucb.errors import CompileWarning
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision
from torch_softucb.problems.base import BanditProblem
from torch_softucb.simulation.state import FixedArms
from torch_softucb.simulation.trajectory import GradientTerms


class Playing(Protocol):
    """What a fast path knows of a :class:`~torch_softucb.simulation.engine.Simulation`."""

    policy: BanditPolicy
    problem: BanditProblem
    arms: FixedArms
    means: Tensor  # (K, *B)
    best: Tensor  # (*B,)
    drift: tuple[Tensor, Tensor, Tensor] | None
    gamma: Tensor  # (*B,)
    memory: Tensor  # (*B, M)
    gradient: bool
    scores: bool
    t: int

    def num_observations(self, t: int) -> Tensor: ...

    def decide(
        self, num_observations: Tensor, gamma: Tensor, noise: Tensor, draw: Tensor
    ) -> tuple[Decision, Tensor, Tensor, Tensor, GradientTerms | None]: ...


# regret, terms of Eq. 13, scores, situation of a module's beta
Played = tuple[Tensor, GradientTerms | None, Tensor | None, Tensor | None]
Fast = Callable[[Playing, Tensor, Tensor], Played]


def warn_eager(why: str) -> None:
    warnings.warn(f"rollout: {why}; playing eagerly, with the same numbers", CompileWarning, stacklevel=2)


def find_compiler() -> str | None:
    """The C++ compiler that torch would use, if there is one."""
    names = [os.environ["CXX"]] if "CXX" in os.environ else ["g++", "clang++", "c++"]
    return next((name for name in names if shutil.which(name)), None)


def _round(
    simulation: Playing, num_observations: Tensor, gamma: Tensor, noise: Tensor, draw: Tensor
) -> tuple[Tensor, GradientTerms | None, Tensor | None, tuple[Tensor, Tensor]]:
    decision, arm, reward, regret, terms = simulation.decide(num_observations, gamma, noise, draw)
    # what is returned is computed once; else the compiler reads the pulled arm's features anew for every entry of `root`
    gathered = simulation.arms.pull(arm, reward)
    if simulation.policy.remembers:
        simulation.memory = simulation.policy.remember(simulation.memory, arm, reward, decision)
    return regret, terms, decision.next_gamma, gathered


@functools.cache
def _compiled() -> Callable[..., Any]:
    return torch.compile(_round, fullgraph=True)


def _play(simulation: Playing, noise: Tensor, draw: Tensor) -> Played:
    num_observations = simulation.num_observations(simulation.t)
    # a round is compiled once for each kind of policy, dtype and layout: more than torch's 8 in one process
    with torch._dynamo.config.patch(recompile_limit=64):
        regret, terms, gamma, _ = _compiled()(simulation, num_observations, simulation.gamma, noise, draw)
    if gamma is not None:
        simulation.gamma = gamma
    return regret.unsqueeze(0), terms, None, None


def compiled_round(device: torch.device) -> Fast | None:
    if device.type == "cpu" and find_compiler() is None:
        warn_eager("compile=True needs a C++ compiler (g++ or clang++), and none was found")
        return None
    return _play
