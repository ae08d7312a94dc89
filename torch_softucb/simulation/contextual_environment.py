"""The world of a simulation with changing candidates: what is offered, its true means, and when rewards arrive."""

from dataclasses import fields

import torch
from torch import Tensor

from torch_softucb.functional.softmax import masked
from torch_softucb.problems.base import BanditProblem
from torch_softucb.problems.contextual import ContextualProblem
from torch_softucb.rng import uniforms
from torch_softucb.simulation.environment import Environment


def with_all_candidates(problem: BanditProblem) -> ContextualProblem:
    """Return a problem with fixed arms as one that offers all items in every round; others are returned as they are."""
    if isinstance(problem, ContextualProblem):
        return problem
    return ContextualProblem(**{field.name: getattr(problem, field.name) for field in fields(problem)})


class ContextualEnvironment(Environment):
    """Candidates of a block of rounds, and true means of those of the current round.

    Attributes:
        candidates: item numbers offered in each round of the block, ``(n, *B, K)``; -1 for none.
        delays: by how many rounds each reward is late, ``(n, *B)``; None if the delay is fixed.
        features: features of the current candidates, ``(*B, K, d)``.
        mask: True where there is a candidate, ``(*B, K)``; None if there are K in all rounds.
    """

    problem: ContextualProblem
    candidates: Tensor  # (n, *B, K)
    delays: Tensor | None  # (n, *B)
    features: Tensor  # (*B, K, d)

    def __init__(self, problem: ContextualProblem) -> None:
        batch, like = problem.batch_shape, problem.means
        self.problem = problem
        self.means, self.best = like.new_zeros(problem.slots, *batch), like.new_zeros(batch)
        self.noise_std = torch.as_tensor(problem.noise_std, dtype=like.dtype, device=like.device)
        self.mask, self.delays = None, None
        self._rows = problem.arms.reshape(-1, problem.dim)
        first = torch.arange(0, len(self._rows), problem.num_arms, device=like.device)
        self._first_row: Tensor | int = 0 if problem.shared_arms else first.view(batch)

    def offer(self, candidates: Tensor, delays: Tensor | None) -> None:  # (n, *B, K), (n, *B)
        """Set what is offered in the next block of rounds."""
        self.candidates, self.delays = candidates, delays

    def apply_drift(self, t: int) -> None:
        """Nothing: :meth:`show` computes the means of the current round, and the kernel those of its block."""

    def show(self, t: int) -> None:
        """Set features, means and mask to those of round ``t``, the first of the block."""
        ids = self.candidates[0].long()
        problem, present = self.problem, ids >= 0
        item = ids.clamp(min=0)
        first = self._first_row if isinstance(self._first_row, int) else self._first_row.unsqueeze(-1)
        self.features = self._rows[item + first]
        means = problem.means_at(t).gather(-1, item)
        self.mask = None if bool(present.all()) else present
        self.means = means.movedim(-1, 0).contiguous()
        self.best = masked(means, self.mask).amax(-1)

    def item_of(self, arm: Tensor) -> Tensor:  # (*B,) -> (*B,)
        """Return the item number of one candidate per trajectory."""
        return self.candidates[0].gather(-1, arm.unsqueeze(-1)).squeeze(-1).long()

    def feature_of(self, arm: Tensor) -> Tensor:  # (*B,) -> (*B, d)
        """Return the features of one candidate per trajectory."""
        at = arm[..., None, None].expand(*arm.shape, 1, self.features.shape[-1])
        return self.features.gather(-2, at).squeeze(-2)

    def features_by_item(self, row: Tensor, item: Tensor) -> Tensor:  # (n,), (n,) -> (n, d)
        """Return the features of items of trajectories, which are numbered from 0 over the whole batch."""
        first = 0 if isinstance(self._first_row, int) else self._first_row.flatten()[row]
        return self._rows[item + first]

    def delay_of(self, n: int) -> Tensor:  # () or (*B,)
        """Return by how many rounds the rewards of the ``n``-th round of the block are late."""
        if self.delays is not None:
            return self.delays[n]
        return torch.tensor(self.problem.max_delay, device=self.means.device)

    def noise(self, key: Tensor, *, start: int, count: int) -> Tensor:  # () -> (count, *B)
        """Return the reward noise; for Bernoulli rewards, the uniform numbers that :meth:`reward` takes."""
        problem = self.problem
        if problem.reward == "gaussian":
            return super().noise(key, start=start, count=count)
        if problem.residuals is None:
            return uniforms(key, problem.ids, start=start, count=count, dtype=self.means.dtype)
        u = uniforms(key, problem.ids, start=start, count=count, dtype=torch.float64)
        return problem.residuals[(u * len(problem.residuals)).long()]

    def reward(self, mean: Tensor, noise: Tensor) -> Tensor:  # (*B,), (*B,) -> (*B,)
        """Return the rewards, given the noise or, for Bernoulli rewards, uniform numbers."""
        return (noise < mean).to(mean.dtype) if self.problem.reward == "bernoulli" else mean + noise
