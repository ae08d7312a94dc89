"""Policies that play one fixed set of arms and remember every arm's rewards."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.lin_ts import SampledDecision


@dataclass(frozen=True, eq=False)
class ArmDecision(Decision):
    """A decision that knows the memory it was made from."""

    memory: Tensor | None = None  # (*B, M)


class ArmPolicy(BanditPolicy):
    """Base of policies over ``num_arms`` arms that stay the same; ``update`` needs ``decision`` and ``arm``.

    The memory is, for every arm, the number of its rewards, their sum and the sum of their squares, unless a subclass brings
    another.
    """

    def __init__(
        self,
        dim: int,
        num_arms: int,
        *,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        memory: Tensor | None = None,
    ) -> None:
        num_arms = check_integer(type(self).__name__, "num_arms", num_arms, low=1)
        memory = torch.zeros(3 * num_arms) if memory is None else memory
        kind = {"refresh_every": refresh_every, "device": device, "dtype": dtype}
        super().__init__(dim, ridge_alpha=ridge_alpha, memory=memory.double(), **kind)  # type: ignore[arg-type]
        self.num_arms = num_arms

    def moments(self, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (*B, 3 K) -> three times (*B, K)
        """Count, sum and sum of squares of every arm's rewards."""
        count, total, squares = torch.split_with_sizes(memory, [self.num_arms] * 3, dim=-1)
        return count, total, squares

    def remember(self, memory: Tensor, arm: Tensor, reward: Tensor, decision: Decision) -> Tensor:
        played = torch.nn.functional.one_hot(arm, self.num_arms).to(memory.dtype)
        reward = reward.to(memory.dtype).unsqueeze(-1)
        return memory + torch.cat((played, played * reward, played * reward.square()), dim=-1)


def gram(estimate: Estimate) -> Tensor:  # (*B, K, K)
    """x_i . V^-1 x_j of every two arms."""
    half = estimate.arms @ estimate.root
    return half @ half.mT


def basis_first(estimate: Estimate, index: Tensor, z: Tensor) -> Tensor:  # (*B, K)
    """``index``, but the width in the first d rounds: these play, in turn, the arm that the others tell least about (of
    equal ones, the one that ``z`` prefers).

    Where nothing was seen all indices are equal, and with rewards above 0 the arm that is played first would stay best.
    """
    early = (estimate.num_observations < estimate.arms.shape[-1]).unsqueeze(-1)
    return torch.where(early, estimate.width * (1 + 1e-3 * z), index)


def sampled(policy: BanditPolicy, estimate: Estimate, mask: Tensor | None, draw: Callable[[Tensor], Tensor]) -> Decision:
    """A decision that can only be drawn; ``draw`` turns standard normal numbers into an index."""
    return SampledDecision(
        None,  # type: ignore[arg-type]
        estimate.mu_hat,
        estimate.mu_hat,
        estimate.width,
        mask,
        draw=draw,
        dim=policy.normals_per_decision,
        name=type(policy).__name__,
    )
