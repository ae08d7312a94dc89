"""Policies over one fixed set of arms that keep statistics per arm."""

from dataclasses import dataclass
from typing import ClassVar, Unpack

import torch
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.policies._checks import check_arms_fit
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.statistics import PolicyKwargs


@dataclass(frozen=True, eq=False)
class ArmDecision(Decision):
    """Decision together with the memory that it is based on.

    Attributes:
        memory: ``(*B, M)`` memory of the policy, with the plan of the current phase.
    """

    memory: Tensor | None = None  # (*B, M)


class ArmPolicy(BanditPolicy):
    """Base of policies over ``num_arms`` arms that stay the same; ``update`` needs ``decision`` and ``arm``.

    By default the memory holds the number of rewards, their sum and the sum of their squares for each arm.

    Args:
        dim: number of features d.
        num_arms: number of arms K.
        memory: ``(M,)`` initial memory, for subclasses with another one.
        **policy_kwargs: ``ridge_alpha``, ``refresh_every``, ``prior``, ``device``, ``dtype``, as in
            :class:`~torch_softucb.BanditPolicy`.
    """

    own_settings: ClassVar[tuple[str, ...]] = ("num_arms",)

    def __init__(
        self, dim: int, num_arms: int, *, memory: Tensor | None = None, **policy_kwargs: Unpack[PolicyKwargs]
    ) -> None:
        num_arms = check_integer(type(self).__name__, "num_arms", num_arms, low=1)
        memory = torch.zeros(3 * num_arms) if memory is None else memory
        super().__init__(dim, memory=memory.double(), **policy_kwargs)
        self.num_arms = num_arms

    @property
    def remembers(self) -> bool:
        """Whether ``update`` needs the decision and the arm; True for all policies over a fixed set."""
        return True

    def moments(self, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (*B, 3 K) -> three times (*B, K)
        """Return number, sum and sum of squares of each arm's rewards."""
        count, total, squares = torch.split_with_sizes(memory, [self.num_arms] * 3, dim=-1)
        return count, total, squares

    def impossible_memory(self, memory: Tensor) -> Tensor:  # (n, 3 K) -> (n,)
        """Return which rows hold moments that no rewards have: negative ones, or (sum y)^2 > n sum y^2."""
        count, total, squares = self.moments(memory)
        most = (count.clamp(min=0) * squares.clamp(min=0)).sqrt() * (1 + 1e-6)  # 1e-6: rounding of long sums
        return ((count < 0) | (squares < 0) | (total.abs() > most)).any(-1)

    def _moments_of(self, estimate: Estimate) -> tuple[Tensor, Tensor, Tensor]:  # three times (*B, K)
        check_arms_fit(type(self).__name__, self.num_arms, estimate.mu_hat.shape[-1])
        return self.moments(estimate.memory.to(estimate.mu_hat.dtype))

    def remember(self, memory: Tensor, arm: Tensor, reward: Tensor, decision: Decision) -> Tensor:
        """Add one reward to the moments of the arm that was played."""
        played = torch.nn.functional.one_hot(arm, self.num_arms).to(memory.dtype)
        reward = reward.to(memory.dtype).unsqueeze(-1)
        return memory + torch.cat((played, played * reward, played * reward.square()), dim=-1)


def gram(estimate: Estimate) -> Tensor:  # (*B, K, K)
    """Return x_i . V^-1 x_j for all pairs of arms."""
    half = estimate.arms @ estimate.root
    return half @ half.mT


def basis_first(estimate: Estimate, index: Tensor, z: Tensor) -> Tensor:  # (*B, K)
    """Rank arms by width during the first d rounds (ties broken by ``z``), then by ``index``.

    The first d pulls then span the feature space. Without observations all indices are equal, and with positive rewards
    the arm that is played first would stay the best one.
    """
    early = (estimate.num_observations < estimate.arms.shape[-1]).unsqueeze(-1)
    return torch.where(early, estimate.width * (1 + 1e-3 * z), index)
