"""Phased elimination with G-optimal exploration: explore by design, drop clearly worse arms, repeat with half the error."""

from typing import NamedTuple, Unpack

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_integer, check_number
from torch_softucb.policies._checks import check_arms_fit
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.fixed_set import ArmDecision, ArmPolicy
from torch_softucb.policies.statistics import PolicyKwargs


class PhaseMemory(NamedTuple):
    """Memory of :class:`PhasedElimination`, by parts.

    Attributes:
        left: ``(*B, K)`` 1 for arms that have not been dropped, else 0.
        plan: ``(*B, K)`` pulls still to make in this phase.
        pulled: ``(*B, K)`` pulls made in this phase.
        total: ``(*B, K)`` sum of rewards of this phase.
        phase: ``(*B,)`` number of the phase; 0 before the first decision.
    """

    left: Tensor  # (*B, K)
    plan: Tensor  # (*B, K)
    pulled: Tensor  # (*B, K)
    total: Tensor  # (*B, K)
    phase: Tensor  # (*B,)


class PhasedElimination(ArmPolicy):
    """Policy that explores in phases by a G-optimal design and drops arms that are clearly worse after each phase.

    In phase l = 1, 2, ..., with a G-optimal design p over the arms that are left and its norm g, each arm is pulled
    ceil(2 R^2 g p / e^2 log(K l (l + 1) / fail_prob)) times, e = 2^-l. Then all arms are dropped whose estimate from the
    rewards of this phase is more than 2 e below the best.

    Args:
        dim: number of features d.
        num_arms: number of arms K.
        subgaussian_r: R of the reward noise; 1 in the book.
        fail_prob: probability that the best arm is ever dropped.
        **policy_kwargs: ``ridge_alpha``, ``refresh_every``, ``prior``, ``device``, ``dtype``, as in
            :class:`~torch_softucb.BanditPolicy`.

    T. Lattimore, C. Szepesvari: Bandit Algorithms, 2020, ch. 22, Algorithm 12.

    Example:
        >>> policy = PhasedElimination(2, num_arms=2)
        >>> policy(torch.eye(2)).probs  # plays by plan
        tensor([1., 0.])
    """

    own_settings = ("subgaussian_r", "fail_prob")

    def __init__(
        self,
        dim: int,
        num_arms: int,
        *,
        subgaussian_r: float = 0.5,
        fail_prob: float = 0.01,
        **policy_kwargs: Unpack[PolicyKwargs],
    ) -> None:
        num_arms = check_integer("PhasedElimination", "num_arms", num_arms, low=1)
        memory = torch.cat((torch.ones(num_arms), torch.zeros(3 * num_arms + 1)))  # the parts of PhaseMemory
        super().__init__(dim, num_arms, memory=memory, **policy_kwargs)
        self.subgaussian_r = check_number("PhasedElimination", "subgaussian_r", subgaussian_r, low=0.0, open_low=True)
        self.fail_prob = check_number("PhasedElimination", "fail_prob", fail_prob, low=0.0, high=1.0, open_low=True)

    def _parts(self, memory: Tensor) -> PhaseMemory:  # (*B, 4 K + 1)
        left, plan, pulled, total, phase = torch.split_with_sizes(memory, [self.num_arms] * 4 + [1], dim=-1)
        return PhaseMemory(left, plan, pulled, total, phase.squeeze(-1))

    def impossible_memory(self, memory: Tensor) -> Tensor:  # (n, 4 K + 1) -> (n,)
        """Return which rows hold no possible phase: no arm left, a negative count, or pulls that are not whole numbers."""
        left, plan, pulled, _, phase = self._parts(memory)
        counts = torch.cat((plan, pulled, phase.unsqueeze(-1)), dim=-1)
        fractions = ((counts < 0) | (counts != counts.floor())).any(-1)
        return fractions | ((left != 0) & (left != 1)).any(-1) | (left.sum(-1) == 0)

    def planned(
        self,
        memory: Tensor,  # (*B, 4 K + 1)
        arms: Tensor,  # (K, d) or (*B, K, d)
        mask: Tensor | None,  # (K,) or (*B, K)
        prior_mean: Tensor | None = None,  # (*B, K)
    ) -> Tensor:  # (*B, 4 K + 1)
        """Return the memory, with the plan of the next phase for bandits whose plan is done."""
        done = self._parts(memory).plan.sum(-1) == 0
        if not bool(done.any()):
            return memory
        batch = memory.shape[:-1]
        every = arms.expand(*batch, *arms.shape[-2:]).double()
        rows = memory[done]
        last = PhaseMemory(*(part.double() for part in self._parts(rows)))
        x = every[done]
        if mask is not None:
            last = last._replace(left=last.left * mask.expand(*batch, -1)[done])
        known = 0.0 if prior_mean is None else prior_mean.expand(*batch, -1)[done].double()
        left = torch.where((last.phase > 0).unsqueeze(-1), self._survivors(x, last, known), last.left)
        phase = last.phase + 1
        weights, g = F.g_optimal_design(x, mask=left > 0)
        precision = 0.5**phase
        confidence = torch.log(self.num_arms * phase * (phase + 1) / self.fail_prob)
        need = 2 * self.subgaussian_r**2 * g * confidence / precision.square()
        plan = (weights * need.unsqueeze(-1)).ceil()
        zero = torch.zeros_like(left)
        new = torch.cat((left, plan, zero, zero, phase.unsqueeze(-1)), dim=-1).to(memory.dtype)
        return memory.masked_scatter(done.unsqueeze(-1).expand(memory.shape), new)

    def _survivors(self, x: Tensor, last: PhaseMemory, known: Tensor | float) -> Tensor:  # (n, K, d), (n, K) -> (n, K)
        V = x.mT @ (last.pulled.unsqueeze(-1) * x)
        b = x.mT @ last.total.unsqueeze(-1)
        mean = (x @ (torch.linalg.pinv(V, hermitian=True) @ b)).squeeze(-1)  # arms left are in the span of those pulled
        mean = mean + known
        gap = mean.masked_fill(last.left == 0, -torch.inf).amax(-1, keepdim=True) - mean
        kept: Tensor = last.left * (gap <= 2 * 0.5 ** last.phase.unsqueeze(-1))
        return kept

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        """Play the first allowed arm with pulls left in the plan, after planning the next phase if the last one is done."""
        mu_hat = estimate.mu_hat
        check_arms_fit("PhasedElimination", self.num_arms, mu_hat.shape[-1])
        memory = self.planned(estimate.memory.expand(*mu_hat.shape[:-1], -1), estimate.arms, mask, estimate.prior_mean)
        wanted = self._parts(memory).plan > 0
        if mask is not None:  # a mask that came after the plan: the phase waits until its arms are allowed again
            allowed = wanted & mask
            wanted = torch.where(allowed.any(-1, keepdim=True), allowed, mask)
        first = wanted.to(mu_hat.dtype).argmax(-1)
        probs = torch.nn.functional.one_hot(first, self.num_arms).to(mu_hat.dtype)
        return ArmDecision(
            probs=probs, index=mu_hat, mu_hat=estimate.reported_mean, width=estimate.width, mask=mask, memory=memory
        )

    def remember(self, memory: Tensor, arm: Tensor, reward: Tensor, decision: Decision) -> Tensor:
        """Count the pull; start the phase that the decision planned, if it planned one.

        Raises:
            TypeError: if ``decision`` is not one of this policy's decisions.
        """
        if not isinstance(decision, ArmDecision) or decision.memory is None:
            raise TypeError(
                f"PhasedElimination.update: decision must be the one with which this policy chose the arm, got a "
                f"{type(decision).__name__} without a plan; pass decision=policy(arms)"
            )
        done = self._parts(memory).plan.sum(-1, keepdim=True) == 0  # then the decision started a phase
        now = self._parts(torch.where(done, decision.memory.to(memory.dtype), memory))
        played = torch.nn.functional.one_hot(arm, self.num_arms).to(memory.dtype)
        plan = (now.plan - played).clamp(min=0)
        total = now.total + played * reward.to(memory.dtype).unsqueeze(-1)
        return torch.cat((now.left, plan, now.pulled + played, total, now.phase.unsqueeze(-1)), dim=-1)
