"""One batch of trajectories to play, with the seeds of its random numbers."""

from dataclasses import dataclass, replace
from typing import Any, Self

import torch

from torch_softucb.policies import BanditPolicy
from torch_softucb.problems.base import BanditProblem
from torch_softucb.problems.family import Member
from torch_softucb.rng import STREAMS, mixed_seed
from torch_softucb.simulation.rollout import rollout
from torch_softucb.simulation.trajectory import Trajectory

_STAGES = ("train", "validate", "test")


def stage_seed(seed: int, stage: str, stream: str, number: int) -> int:
    """A seed of its own for every stage, stream and number."""
    return mixed_seed(seed, _STAGES.index(stage), STREAMS.index(stream), number)


@dataclass(frozen=True)
class Episode:
    """One batch: trajectories to be played, and the seeds of their noise and of their action draws."""

    problem: BanditProblem
    noise_seed: int
    action_seed: int
    horizon: int | None = None  # of a family's member, whose T is its own
    discount: float = 1.0  # what a policy keeps a round of what it knew

    @classmethod
    def of_member(cls, member: Member, count: int, *, seed: int) -> Self:
        """``count`` problems of a family's member, and the random numbers to play them."""
        noise, action = mixed_seed(seed, 1), mixed_seed(seed, 2)
        return cls(member.problem(count, seed=seed), noise, action, member.horizon, member.discount)

    def generators(self, device: torch.device) -> tuple[torch.Generator, torch.Generator]:
        """(noise, action)"""
        noise, action = (torch.Generator(device).manual_seed(s) for s in (self.noise_seed, self.action_seed))
        return noise, action

    def play(self, policy: BanditPolicy, *, horizon: int, problem: BanditProblem | None = None, **kind: Any) -> Trajectory:
        """A rollout with this episode's random numbers, on its problem or on one made of it; sixteen rounds are recorded."""
        noise, action = self.generators(policy.device)
        return rollout(
            policy,
            self.problem if problem is None else problem,
            horizon=horizon,
            generator=action,
            noise_generator=noise,
            record_every=max(1, horizon // 16),
            discount=self.discount,
            **kind,
        )

    def to(self, device: torch.device) -> "Episode":
        return replace(self, problem=self.problem.to(device))
