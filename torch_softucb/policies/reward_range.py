"""Policies over a fixed set of arms that need to know the range of the rewards."""

import math
from typing import ClassVar, Unpack

from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.policies.fixed_set import ArmPolicy
from torch_softucb.policies.statistics import PolicyKwargs


class RangeKwargs(PolicyKwargs, total=False):
    """Keyword arguments of policies with a reward range, in addition to those of every policy.

    Attributes:
        reward_low: lower end of the reward range, 0 by default.
        reward_high: upper end of the reward range, 1 by default.
    """

    reward_low: float
    reward_high: float


class RangedArmPolicy(ArmPolicy):
    """Base of policies over ``num_arms`` arms whose rewards have a known range.

    Args:
        dim: number of features d.
        num_arms: number of arms K.
        memory: ``(M,)`` initial memory, for subclasses with another one.
        **policy_kwargs: ``reward_low``, ``reward_high``, and the arguments of :class:`~torch_softucb.BanditPolicy`.
    """

    own_settings: ClassVar[tuple[str, ...]] = ("reward_low", "reward_high")

    def __init__(
        self, dim: int, num_arms: int, *, memory: Tensor | None = None, **policy_kwargs: Unpack[RangeKwargs]
    ) -> None:
        name, low = type(self).__name__, policy_kwargs.pop("reward_low", 0.0)
        high = policy_kwargs.pop("reward_high", 1.0)
        super().__init__(dim, num_arms, memory=memory, **policy_kwargs)  # type: ignore[misc]
        self.reward_low = check_number(name, "reward_low", low, low=-math.inf, open_low=True)
        self.reward_high = check_number(name, "reward_high", high, low=self.reward_low, open_low=True)
