"""The interface between the simulation and the backends that play its rounds."""

import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from torch_softucb.errors import CompileWarning
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.problems.base import BanditProblem
from torch_softucb.simulation.environment import Environment
from torch_softucb.simulation.saved_state import SimulationState
from torch_softucb.simulation.trajectory import Round

_WARNED: set[str] = set()  # reasons that have been given
_NUMBERS_AT_ONCE = 2**15  # random numbers drawn per stream and block: they stay in the cache


class Arms(Protocol):
    """What reads and updates the estimates in a state; each has its own type of state."""

    discount: float

    def estimate(self, state: Any, num_observations: Tensor) -> Estimate:
        """Return what a policy decides on."""
        ...

    def learn(self, state: Any, decision: Decision, arm: Tensor, reward: Tensor) -> object:
        """Update the state after a round."""
        ...


@dataclass(frozen=True, eq=False)
class PlaySetup:
    """What a backend plays. It stays the same for a whole simulation, except for the environment's drifting means.

    Attributes:
        policy: policy that decides; its beta may change between rounds.
        problem: the problems, one trajectory each.
        arms: object that reads and updates the estimates.
        environment: true means and regret.
        gradient: whether rounds carry the terms of Eq. 13.
        scores: whether rounds carry the ``SCORES``.
    """

    policy: BanditPolicy
    problem: BanditProblem
    arms: Arms
    environment: Environment
    gradient: bool = False
    scores: bool = False


class Backend(Protocol):
    """One way to play rounds. All backends give the same numbers, up to rounding; the eager one is the reference.

    Attributes:
        max_rounds: longest block of rounds per call of :meth:`play`; None if there is no limit.
    """

    max_rounds: int | None = 1

    def __init__(self, setup: PlaySetup) -> None: ...

    @classmethod
    def unsupported(cls, setup: PlaySetup) -> str | None:
        """Return why this backend cannot play ``setup``, or None if it can.

        Raises:
            TypeError, ValueError: if the request is a mistake that falling back to eager rounds would hide.
        """
        return None

    def rounds_at_once(self, numbers_per_round: int) -> int:
        """Return for how many rounds random numbers are drawn at once."""
        return max(1, _NUMBERS_AT_ONCE // numbers_per_round)

    def play(
        self,
        state: SimulationState,
        noise: Tensor,  # (n, *B)
        draws: Tensor,  # (n, *B) uniform float64, or (n, *B, m) standard normal
    ) -> Iterator[Round]:
        """Play ``n <= max_rounds`` rounds from ``state``, which is advanced in place.

        Tensors of a yielded round may be views of the state; they are valid until the iterator is advanced.
        """
        ...


def warn_eager(reason: str) -> None:
    """Warn that rounds run eagerly although another backend was requested, once per reason and process.

    The once is kept here: Lightning and others reset the registry that Python keeps for it. Numbers in the text do not make
    another reason. The warning points at the first caller outside the package.
    """
    key = re.sub(r"\d+", "", reason)
    if key in _WARNED:
        return
    _WARNED.add(key)
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("torch_softucb"):
        level, frame = level + 1, frame.f_back
    text = f"rollout: {reason}; playing eagerly, with the same numbers"
    warnings.warn(text, CompileWarning, stacklevel=level)
