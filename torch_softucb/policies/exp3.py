"""EXP3: exponential weights for adversarial rewards; does not use the features."""

from typing import Self, Unpack

import torch
from torch import Tensor

from torch_softucb.checks import check_integer, check_number
from torch_softucb.functional.softmax import _softmax
from torch_softucb.policies._checks import check_arms_fit
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.reward_range import RangedArmPolicy, RangeKwargs


class EXP3(RangedArmPolicy):
    """Policy that plays p = (1 - exploration) softmax(log w) + exploration / K.

    A reward r in [0, 1] of an arm that was played with probability p adds exploration r / (p K) to its log w.

    Args:
        dim: number of features d; EXP3 does not use them.
        num_arms: number of arms K.
        exploration: gamma of the original paper; :meth:`theoretical` derives it from the horizon.
        reward_low: reward that counts as 0; rewards are scaled, not clipped.
        reward_high: reward that counts as 1.
        **policy_kwargs: ``ridge_alpha``, ``refresh_every``, ``prior``, ``device``, ``dtype``, as in
            :class:`~torch_softucb.BanditPolicy`.

    P. Auer, N. Cesa-Bianchi, Y. Freund, R. E. Schapire: Gambling in a rigged casino, FOCS 1995.

    Example:
        >>> policy = EXP3(2, num_arms=2, exploration=0.2)
        >>> decision = policy(torch.eye(2))
        >>> decision.probs
        tensor([0.5000, 0.5000])
        >>> policy.update(torch.tensor([1.0, 0.0]), torch.tensor(1.0), decision=decision, arm=torch.tensor(0))
        >>> policy(torch.eye(2)).probs  # log w = 0.2 * 1 / (0.5 * 2) = 0.2
        tensor([0.5399, 0.4601])
    """

    own_settings = ("exploration",)
    memory_is_centred = False  # weights do not depend on features

    def __init__(self, dim: int, num_arms: int, *, exploration: float = 0.1, **policy_kwargs: Unpack[RangeKwargs]) -> None:
        num_arms = check_integer("EXP3", "num_arms", num_arms, low=1)
        super().__init__(dim, num_arms, memory=torch.zeros(num_arms), **policy_kwargs)  # log w
        self.exploration = check_number(
            "EXP3", "exploration", exploration, low=0.0, high=1.0, open_low=True, closed_high=True
        )

    @classmethod
    def theoretical(cls, dim: int, num_arms: int, *, horizon: int, **policy_kwargs: Unpack[RangeKwargs]) -> Self:
        """Build EXP3 with exploration = min(1, sqrt(K ln K / ((e - 1) T))), Corollary 4.2 of the original paper.

        Args:
            dim: number of features d.
            num_arms: number of arms K.
            horizon: number of rounds T, which bounds the total reward.
            **policy_kwargs: as in the constructor.
        """
        k = torch.tensor(float(num_arms))
        exploration = float(torch.sqrt(k * k.log() / ((torch.e - 1) * horizon)).clamp(1e-9, 1.0))
        return cls(dim, num_arms, exploration=exploration, **policy_kwargs)

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        """Mix the softmax over the log weights with the uniform distribution."""
        check_arms_fit("EXP3", self.num_arms, estimate.mu_hat.shape[-1])
        log_w = estimate.memory.to(estimate.mu_hat.dtype).expand(estimate.mu_hat.shape)  # several requests of one bandit
        allowed = torch.ones_like(log_w) if mask is None else mask.expand(log_w.shape).to(log_w.dtype)
        soft = _softmax(log_w.clone(), mask)
        probs = (1 - self.exploration) * soft + self.exploration * allowed / allowed.sum(-1, keepdim=True)
        return Decision(probs=probs, index=log_w, mu_hat=estimate.reported_mean, width=estimate.width, mask=mask)

    def impossible_memory(self, memory: Tensor) -> Tensor:  # (n, K) -> (n,)
        """Return False for every row: log weights can be any numbers."""
        return torch.zeros_like(memory[..., 0], dtype=torch.bool)

    def remember(self, memory: Tensor, arm: Tensor, reward: Tensor, decision: Decision) -> Tensor:
        """Add the importance-weighted reward to the log weight of the arm that was played."""
        scaled = (reward.to(memory.dtype) - self.reward_low) / (self.reward_high - self.reward_low)
        p = decision.probs.gather(-1, arm.unsqueeze(-1)).squeeze(-1).to(memory.dtype)
        step = self.exploration * scaled / (p * self.num_arms)
        return memory + torch.nn.functional.one_hot(arm, self.num_arms).to(memory.dtype) * step.unsqueeze(-1)
