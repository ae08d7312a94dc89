"""A reliability goal: what is claimed, how it is measured, and the registry of all goals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        quick: small version for continuous integration; it shows that the measurement works and finds gross failures.
        seed: seed of every random choice.
    """

    quick: bool = False
    seed: int = 0

    def of(self, full: T, quick: T) -> T:
        """Return the first value in a full run, the second one in a quick run."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Result:
    """What was measured.

    Attributes:
        met: whether the goal is met.
        measured: the figures, in one line.
    """

    met: bool
    measured: str


@dataclass(frozen=True)
class Goal:
    """One goal.

    Attributes:
        id: row of the table, "R1" to "R23".
        claim: what has to hold, in words and figures.
        method: how it is measured, for a reader who knows nothing else.
        measure: function that measures it.
        alone: whether nothing else may run at the same time, because time is measured.
        minutes: limit after which the measurement is stopped and the goal counts as not met.
    """

    id: str
    claim: str
    method: str
    measure: Callable[[Size], Result]
    alone: bool = False
    minutes: float = 20.0


GOALS: dict[str, Goal] = {}


def goal(
    id: str, *, claim: str, method: str, alone: bool = False, minutes: float = 20.0
) -> Callable[[Callable[[Size], Result]], Callable[[Size], Result]]:
    """Register a function as the measurement of a goal; the arguments are the attributes of :class:`Goal`."""

    def register(measure: Callable[[Size], Result]) -> Callable[[Size], Result]:
        if id in GOALS:
            raise ValueError(f"goal: {id} is already registered; use another id")
        GOALS[id] = Goal(id, " ".join(claim.split()), " ".join(method.split()), measure, alone, minutes)
        return measure

    return register
