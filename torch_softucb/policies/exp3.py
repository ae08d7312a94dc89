"""EXP3: exponential weights for adversarial rewards; knows no features."""

import torch
from torch import Tensor

from torch_softucb.checks import check_number, check_span
from torch_softucb.functional.softmax import _softmax
from torch_softucb.policies._checks import check_arms_fit
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.fixed_set import ArmPolicy


class EXP3(ArmPolicy):
    """Plays p = (1 - exploration) softmax(log w) + exploration / K; a reward r in [0, 1] of an arm played with probability p
    adds exploration r / (p K) to its log w.

    Args:
        dim: number of features d (kept for the shared contract; EXP3 does not use them).
        num_arms: K.
        exploration: gamma of the source; :meth:`theoretical` sets it by the horizon.
        reward_low: reward that counts as 0; rewards are scaled, not clipped.
        reward_high: reward that counts as 1.

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

    def __init__(
        self,
        dim: int,
        num_arms: int,
        *,
        exploration: float = 0.1,
        reward_low: float = 0.0,
        reward_high: float = 1.0,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        kind = {"refresh_every": refresh_every, "device": device, "dtype": dtype}
        memory = torch.zeros(num_arms) if isinstance(num_arms, int) and num_arms > 0 else None
        super().__init__(dim, num_arms, ridge_alpha=ridge_alpha, memory=memory, **kind)  # type: ignore[arg-type]
        self.exploration = check_number(
            "EXP3", "exploration", exploration, low=0.0, high=1.0, open_low=True, closed_high=True
        )
        self.reward_low, self.reward_high = check_span("EXP3", reward_low, reward_high)

    @classmethod
    def theoretical(cls, dim: int, num_arms: int, *, horizon: int, **kind: object) -> "EXP3":
        """exploration = min(1, sqrt(K ln K / ((e - 1) T))), the source's Corollary 4.2 with T as the bound of the gain."""
        k = torch.tensor(float(num_arms))
        value = torch.sqrt(k * k.log() / ((torch.e - 1) * horizon)).clamp(1e-9, 1.0)
        return cls(dim, num_arms, exploration=float(value), **kind)  # type: ignore[arg-type]

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        mu_hat, width, log_w = estimate.mu_hat, estimate.width, estimate.memory.to(estimate.mu_hat.dtype)
        check_arms_fit("EXP3", self.num_arms, mu_hat.shape[-1])
        allowed = torch.ones_like(log_w) if mask is None else mask.expand(log_w.shape).to(log_w.dtype)
        soft = _softmax(log_w.clone(), mask)
        probs = (1 - self.exploration) * soft + self.exploration * allowed / allowed.sum(-1, keepdim=True)
        return Decision(probs, log_w, mu_hat, width, mask)

    def remember(self, memory: Tensor, arm: Tensor, reward: Tensor, decision: Decision) -> Tensor:
        scaled = (reward.to(memory.dtype) - self.reward_low) / (self.reward_high - self.reward_low)
        p = decision.probs.gather(-1, arm.unsqueeze(-1)).squeeze(-1).to(memory.dtype)
        step = self.exploration * scaled / (p * self.num_arms)
        return memory + torch.nn.functional.one_hot(arm, self.num_arms).to(memory.dtype) * step.unsqueeze(-1)
