"""Phased elimination with G-optimal exploration: explore by design, drop what is surely worse, go on twice as fine."""

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.policies._checks import check_arms_fit
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.fixed_set import ArmDecision, ArmPolicy


class PhasedElimination(ArmPolicy):
    """In phase l = 1, 2, ...: a G-optimal design p over the arms that are left, with norm g; every arm is pulled
    ceil(2 R^2 g p / e^2 log(K l (l + 1) / fail_prob)) times, e = 2^-l; then arms whose estimate from this phase's rewards is
    more than 2 e below the best are dropped.

    Args:
        dim: number of features d.
        num_arms: K.
        subgaussian_r: R of the reward noise; 1 in the source.
        fail_prob: probability that the best arm is ever dropped.

    T. Lattimore, C. Szepesvari: Bandit Algorithms, 2020, ch. 22, Algorithm 12.

    Example:
        >>> policy = PhasedElimination(2, num_arms=2)
        >>> policy(torch.eye(2)).probs  # plays by plan
        tensor([1., 0.])
    """

    def __init__(
        self,
        dim: int,
        num_arms: int,
        *,
        subgaussian_r: float = 0.5,
        fail_prob: float = 0.01,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        kind = {"refresh_every": refresh_every, "device": device, "dtype": dtype}
        memory = None
        if isinstance(num_arms, int) and num_arms > 0:  # left, still to pull, pulled, rewards of this phase; phase
            zeros = torch.zeros(num_arms)
            memory = torch.cat((torch.ones(num_arms), zeros, zeros, zeros, torch.zeros(1)))
        super().__init__(dim, num_arms, ridge_alpha=ridge_alpha, memory=memory, **kind)  # type: ignore[arg-type]
        self.subgaussian_r = check_number("PhasedElimination", "subgaussian_r", subgaussian_r, low=0.0, open_low=True)
        self.fail_prob = check_number("PhasedElimination", "fail_prob", fail_prob, low=0.0, high=1.0, open_low=True)

    def _parts(self, memory: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        left, plan, pulled, total, phase = torch.split_with_sizes(memory, [self.num_arms] * 4 + [1], dim=-1)
        return left, plan, pulled, total, phase.squeeze(-1)

    def planned(self, memory: Tensor, arms: Tensor, mask: Tensor | None) -> Tensor:
        """The memory, with the next phase's plan where the last one is done."""
        done = self._parts(memory)[1].sum(-1) == 0
        if not bool(done.any()):
            return memory
        batch = memory.shape[:-1]
        every = arms.expand(*batch, *arms.shape[-2:]).double()
        rows = memory[done]
        left, _, pulled, total, phase = (part.double() for part in self._parts(rows))
        x = every[done]
        if mask is not None:
            left = left * mask.expand(*batch, -1)[done]
        left = torch.where((phase > 0).unsqueeze(-1), self._survivors(x, left, pulled, total, phase), left)
        phase = phase + 1
        weights, g = F.g_optimal_design(x, mask=left > 0)
        precision = 0.5**phase
        confidence = torch.log(self.num_arms * phase * (phase + 1) / self.fail_prob)
        need = 2 * self.subgaussian_r**2 * g * confidence / precision.square()
        plan = (weights * need.unsqueeze(-1)).ceil()
        zero = torch.zeros_like(left)
        new = torch.cat((left, plan, zero, zero, phase.unsqueeze(-1)), dim=-1).to(memory.dtype)
        return memory.masked_scatter(done.unsqueeze(-1).expand(memory.shape), new)

    def _survivors(self, x: Tensor, left: Tensor, pulled: Tensor, total: Tensor, phase: Tensor) -> Tensor:
        V = x.mT @ (pulled.unsqueeze(-1) * x)
        b = x.mT @ total.unsqueeze(-1)
        mean = (x @ (torch.linalg.pinv(V, hermitian=True) @ b)).squeeze(-1)  # arms left lie in the span of those pulled
        gap = mean.masked_fill(left == 0, -torch.inf).amax(-1, keepdim=True) - mean
        kept: Tensor = left * (gap <= 2 * 0.5 ** phase.unsqueeze(-1))
        return kept

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        mu_hat, width, arms = estimate.mu_hat, estimate.width, estimate.arms
        check_arms_fit("PhasedElimination", self.num_arms, mu_hat.shape[-1])
        memory = self.planned(estimate.memory.expand(*mu_hat.shape[:-1], -1), arms, mask)
        plan = self._parts(memory)[1]
        first = (plan > 0).to(mu_hat.dtype).argmax(-1)
        probs = torch.nn.functional.one_hot(first, self.num_arms).to(mu_hat.dtype)
        return ArmDecision(probs, mu_hat, mu_hat, width, mask, memory=memory)

    def remember(self, memory: Tensor, arm: Tensor, reward: Tensor, decision: Decision) -> Tensor:
        assert isinstance(decision, ArmDecision)
        assert decision.memory is not None
        planned = self._parts(memory)[1].sum(-1, keepdim=True) == 0  # then the decision began a phase
        memory = torch.where(planned, decision.memory.to(memory.dtype), memory)
        left, plan, pulled, total, phase = self._parts(memory)
        played = torch.nn.functional.one_hot(arm, self.num_arms).to(memory.dtype)
        plan = (plan - played).clamp(min=0)
        total = total + played * reward.to(memory.dtype).unsqueeze(-1)
        return torch.cat((left, plan, pulled + played, total, phase.unsqueeze(-1)), dim=-1)
