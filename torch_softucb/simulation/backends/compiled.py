"""Play rounds under ``torch.compile``: one graph from the decision to the updated statistics."""

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from torch_softucb.simulation.backends.base import Backend, PlaySetup
from torch_softucb.simulation.backends.eager import Outcome, decide
from torch_softucb.simulation.contextual_arms import ContextualArms
from torch_softucb.simulation.contextual_state import ContextualState
from torch_softucb.simulation.saved_state import SimulationState
from torch_softucb.simulation.trajectory import GradientTerms, Round

_RECOMPILE_LIMIT = 64  # one graph per policy class, dtype and layout: more than torch's default of 8 in one process


def find_compiler() -> str | None:
    """Return the name of the C++ compiler that torch would use, or None if there is none."""
    names = [os.environ["CXX"]] if "CXX" in os.environ else ["g++", "clang++", "c++"]
    return next((name for name in names if shutil.which(name)), None)


def _round(
    setup: PlaySetup, state: SimulationState, num_observations: Tensor, noise: Tensor, draw: Tensor
) -> tuple[Tensor, GradientTerms | None, Tensor, Tensor, object]:
    outcome = decide(setup, state, num_observations, noise, draw)
    gathered = setup.arms.learn(
        state, outcome.decision, outcome.arm, outcome.reward
    )  # an output only so that it is computed once, see FixedArms.update
    return outcome.regret, outcome.gradient, outcome.arm, outcome.reward, gathered


@functools.cache
def _compiled() -> Callable[..., Any]:
    return torch.compile(_round, fullgraph=True)


@functools.cache
def _compiled_decision() -> Callable[..., Outcome]:
    return torch.compile(decide, fullgraph=True)


class Compiled(Backend):
    """Backend that plays one round per call, as a compiled graph of the eager round.

    With changing candidates the decision is compiled, and the policy's own update runs eagerly.
    """

    def __init__(self, setup: PlaySetup) -> None:
        self.setup = setup

    @classmethod
    def unsupported(cls, setup: PlaySetup) -> str | None:
        """Return why the round cannot be compiled, or None."""
        if setup.scores:
            return "compile=True does not compute scores (scores=True); use compile='native'"
        if setup.problem.means.device.type == "cpu" and find_compiler() is None:
            return "compile=True needs a C++ compiler (g++ or clang++), and none was found"
        return None

    def play(self, state: SimulationState, noise: Tensor, draws: Tensor) -> Iterator[Round]:
        """Yield the round after the state was updated."""
        if isinstance(self.setup.arms, ContextualArms):
            yield self._contextual(self.setup.arms, state, noise[0], draws[0])
            return
        with torch._dynamo.config.patch(recompile_limit=_RECOMPILE_LIMIT):
            regret, gradient, arm, reward, _ = _compiled()(self.setup, state, state.num_observations, noise[0], draws[0])
        state.t += 1
        yield Round(state.t - 1, regret.unsqueeze(0), gradient, arm=arm, reward=reward)

    def _contextual(self, arms: ContextualArms, state: SimulationState, noise: Tensor, draw: Tensor) -> Round:
        assert isinstance(state, ContextualState)
        self.setup.environment.show(state.t)
        with torch._dynamo.config.patch(recompile_limit=_RECOMPILE_LIMIT):
            outcome = _compiled_decision()(self.setup, state, state.num_observations, noise, draw)
        arms.learn(state, outcome.decision, outcome.arm, outcome.reward)
        state.t += 1
        return Round(state.t - 1, outcome.regret.unsqueeze(0), outcome.gradient, arm=outcome.arm, reward=outcome.reward)
