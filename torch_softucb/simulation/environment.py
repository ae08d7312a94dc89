"""The side of a simulation that the policy does not see: true mean rewards, their drift and the regret."""

import torch
from torch import Tensor

from torch_softucb.functional.regret import _expected_regret
from torch_softucb.functional.softmax import masked
from torch_softucb.policies.decision import Decision
from torch_softucb.problems.base import BanditProblem
from torch_softucb.rng import normals


class Environment:
    """True mean rewards of a batch of problems in the current round.

    Attributes:
        problem: the problems.
        means: mean reward of each arm, ``(K, *B)``; :meth:`apply_drift` overwrites it.
        best: largest mean among the allowed arms, ``(*B,)``; also overwritten.
        noise_std: standard deviation of the reward noise, ``()`` or ``(*B,)``.
        mask: True where an arm may be played, ``(K,)`` or ``(*B, K)``; None allows all.
    """

    mask: Tensor | None

    def __init__(self, problem: BanditProblem) -> None:
        like = problem.means
        self.problem, self.mask = problem, problem.mask
        self.means = like.movedim(-1, 0).clone(memory_format=torch.contiguous_format)
        self.best = problem.best_mean.contiguous()
        self.noise_std = torch.as_tensor(problem.noise_std, dtype=like.dtype, device=like.device)

    @property
    def present_means(self) -> Tensor:  # (*B, K)
        """Mean rewards of the current round, in the problem's layout."""
        return self.means.movedim(0, -1)

    def apply_drift(self, t: int) -> None:
        """Set ``means`` and ``best`` to those of round ``t``, counted from 0."""
        if self.problem.rotated_means is not None:
            self.means.copy_(self.problem.means_at(t).movedim(-1, 0))
            self.best.copy_(masked(self.present_means, self.problem.mask).amax(-1))

    def show(self, t: int) -> None:
        """Set the candidates to those of round ``t``; with fixed arms there is nothing to do."""

    def noise(self, key: Tensor, *, start: int, count: int) -> Tensor:  # () -> (count, *B)
        """Return the reward noise of rounds ``start`` to ``start + count - 1``."""
        return normals(key, self.problem.ids, start=start, count=count, dtype=self.means.dtype).mul_(self.noise_std)

    def mean_of(self, arm: Tensor) -> Tensor:  # (*B,) -> (*B,)
        """Mean reward of one arm per trajectory."""
        return self.means.gather(0, arm.unsqueeze(0)).squeeze(0)

    def reward(self, mean: Tensor, noise: Tensor) -> Tensor:  # (*B,), (*B,) -> (*B,)
        """Return the rewards."""
        return mean + noise

    def regret(self, decision: Decision, mean: Tensor) -> Tensor:  # (*B,) -> (*B,)
        """Return the expected regret of a decision, Eq. 2.

        Args:
            decision: the decision of this round.
            mean: mean reward of the arm that was drawn, used where the decision has no probabilities in closed form. The
                result is then an unbiased estimate, since the arm was drawn from the policy.
        """
        if decision.probs is None:
            return self.best - mean
        return _expected_regret(decision.probs.movedim(-1, 0), self.means, self.best, dim=0)  # Eq. 2
