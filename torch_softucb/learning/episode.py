"""One batch of trajectories to play, with the seeds of its random numbers."""

from dataclasses import dataclass, replace
from typing import Any, Self

import torch

from torch_softucb.policies import BanditPolicy
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.problems.base import BanditProblem
from torch_softucb.problems.family import Member
from torch_softucb.rng import STREAMS, mixed_seed
from torch_softucb.simulation.rollout import rollout
from torch_softucb.simulation.trajectory import Trajectory

RECORDED_ROUNDS = 16  # per trajectory: enough for the means that are logged; recorded rounds are played eagerly
_STAGES = ("train", "validate", "test")


def stage_seed(seed: int, stage: str, stream: str, number: int) -> int:
    """Derive a separate seed for every stage (train, validate, test), stream and batch number."""
    return mixed_seed(seed, _STAGES.index(stage), STREAMS.index(stream), number)


@dataclass(frozen=True)
class Episode:
    """One batch of trajectories: the problems to play, and the seeds of their noise and of their action draws.

    Attributes:
        problem: the problems, one trajectory each.
        noise_seed: seed of the reward noise.
        action_seed: seed of the action draws.
        horizon: number of rounds T, if the episode sets it (members of a :class:`~torch_softucb.problems.Family`).
        discount: fraction of its statistics that a policy keeps per round; 1 forgets nothing.
        start: prior, or policy whose statistics, trajectories begin with, as in :func:`torch_softucb.rollout`.

    Example:
        >>> from torch_softucb import LinUCB, synthetic_problem
        >>> episode = Episode(synthetic_problem(num_problems=4), noise_seed=1, action_seed=2)
        >>> episode.play(LinUCB(10), horizon=20).regret.shape
        torch.Size([20, 4])
    """

    problem: BanditProblem
    noise_seed: int
    action_seed: int
    horizon: int | None = None
    discount: float = 1.0
    start: GaussianPrior | BanditPolicy | None = None

    @classmethod
    def of_member(cls, member: Member, count: int, *, seed: int) -> Self:
        """Draw ``count`` problems from a member of a family, and the random numbers to play them."""
        noise, action = mixed_seed(seed, 1), mixed_seed(seed, 2)
        problem, prior = member.problem(count, seed=seed), None
        distribution = member.theta_distribution(seed=seed)
        if distribution is not None:
            mean, deviation = distribution
            low, high = member.noise_std
            prior = GaussianPrior(mean, torch.diag(deviation.double() ** 2), noise_std=(low * high) ** 0.5)
        return cls(problem, noise, action, member.horizon, member.discount, prior)

    def generators(self, device: torch.device) -> tuple[torch.Generator, torch.Generator]:
        """Return the generators of the reward noise and of the action draws, in this order."""
        noise, action = (torch.Generator(device).manual_seed(s) for s in (self.noise_seed, self.action_seed))
        return noise, action

    def play(
        self, policy: BanditPolicy, *, horizon: int, problem: BanditProblem | None = None, **rollout_kwargs: Any
    ) -> Trajectory:
        """Roll out a policy with the random numbers of this episode.

        Args:
            policy: any policy.
            horizon: T.
            problem: problems to play instead of the episode's own, for example several copies of each.
            **rollout_kwargs: further arguments of :func:`torch_softucb.rollout`. Requested records are kept
                for :data:`RECORDED_ROUNDS` equally spaced rounds.
        """
        noise, action = self.generators(policy.device)
        return rollout(
            policy,
            self.problem if problem is None else problem,
            horizon=horizon,
            generator=action,
            noise_generator=noise,
            record_every=max(1, horizon // RECORDED_ROUNDS),
            discount=self.discount,
            start=self.start,
            **rollout_kwargs,
        )

    def to(self, device: torch.device) -> "Episode":
        """Move the problems to another device."""
        return replace(self, problem=self.problem.to(device))
