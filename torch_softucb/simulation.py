"""A policy at play against a batch of problems, round by round, all trajectories at once.

Arms stay fixed, so estimates are carried forward instead of solved for: with w = root^T x_a, u = root w = V^-1 x_a,
z = X u and s = 1 + |w|^2, a pull changes width^2 by -z^2 / s and mu_hat by z (y - mu_hat_a) / s: O(Kd + d^2) a round.
Tensors are laid out with the batch innermost, (K, *B), and shown to the policy as (*B, K) views: every pass over arms
and every broadcast over the batch then runs over contiguous memory.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import NumericalError, check_same_world
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.streams import normals, stream_key, uniforms
from torch_softucb.types import BanditProblem, Decision, Estimate

_BLOCK = 2**15  # random numbers drawn at once, per stream: they stay in the cache


class Round(NamedTuple):
    """One round of every trajectory."""

    t: int  # from 0
    decision: Decision
    arm: Tensor  # (*B,)
    reward: Tensor  # (*B,)
    regret: Tensor  # (*B,) expected, Eq. 2


class FixedArms:
    """Estimates of every arm, carried forward pull by pull, batch innermost."""

    def __init__(self, problem: BanditProblem, ridge_alpha: float) -> None:
        like, batch, d = problem.means, problem.batch_shape, problem.dim
        ones = [1] * len(batch)
        self.shared = problem.shared_arms
        # (K, d) as it is, or (d, K, *B)
        self.arms = problem.arms if self.shared else problem.arms.permute(-1, -2, *range(len(batch))).contiguous()
        self.rows = problem.arms.reshape(-1, d)  # (K, d) or (*B K, d): one arm's features lie together
        first = torch.zeros_like(problem.ids).flatten() if self.shared else torch.arange(0, len(self.rows), problem.num_arms)
        self.first = first.to(like.device).view(batch)  # each trajectory's first row
        # products are written over in every round: large blocks of memory asked for anew cost more than the arithmetic
        self.products = torch.empty_like(self.arms[:0] if self.shared else self.arms)
        norm_sq = self.arms.square().sum(1 if self.shared else 0) / ridge_alpha
        if self.shared:
            norm_sq = norm_sq.view(-1, *ones).expand(-1, *batch)
        self.width_sq = norm_sq.clone(memory_format=torch.contiguous_format)  # (K, *B)
        self.mu_hat = torch.zeros_like(self.width_sq)  # (K, *B)
        eye = torch.eye(d, dtype=like.dtype, device=like.device) / math.sqrt(ridge_alpha)
        self.root = eye.view(d, d, *ones).repeat(1, 1, *batch)  # (d, d, *B)
        self.squares = torch.empty_like(self.root)

    def project(self, u: Tensor) -> Tensor:  # (d, *B) -> x_i . u, (K, *B)
        if self.shared:
            return (self.arms @ u.reshape(len(u), -1)).view(-1, *u.shape[1:])
        torch.mul(self.arms, u.unsqueeze(1), out=self.products)
        return self.products.sum(0)

    def features(self, arm: Tensor) -> Tensor:  # (*B,) -> (d, *B)
        return self.rows.index_select(0, (self.first + arm).flatten()).T.reshape(-1, *arm.shape)

    def perturb(self, z: Tensor) -> Tensor:  # (*B, d) -> (*B, K)
        return self.project(self._times_root(z.movedim(-1, 0).contiguous())).movedim(0, -1)

    def _times_root(self, z: Tensor) -> Tensor:  # (d, *B) -> root z, (d, *B)
        torch.mul(self.root, z, out=self.squares)
        return self.squares.sum(1)

    def estimate(self, t: int, gamma: Tensor) -> Estimate:
        if not bool(self.width_sq.amin() >= 0):
            bad = ~(self.width_sq >= 0)
            raise NumericalError(
                f"rollout: width^2 is negative or NaN for {int(bad.sum())} of {bad.numel()} arms at round {t + 1}; "
                f"{self.width_sq.dtype} is too short for this horizon or these features: use float64"
            )
        seen = torch.full((), t, dtype=gamma.dtype, device=gamma.device)
        return Estimate(self.mu_hat.movedim(0, -1), self.width_sq.sqrt().movedim(0, -1), seen, gamma, self.perturb)

    def pull(self, arm: Tensor, reward: Tensor) -> None:
        x = self.features(arm)
        torch.mul(self.root, x.unsqueeze(1), out=self.squares)
        w = self.squares.sum(0)  # root^T x
        u = self._times_root(w)  # V^-1 x
        z = self.project(u)
        s = 1 + w.square().sum(0)
        residual = reward - self.mu_hat.gather(0, arm.unsqueeze(0)).squeeze(0)
        self.mu_hat.addcmul_(z, residual / s)
        self.width_sq.addcmul_(z, z / -s)
        self.root.addcmul_(u.unsqueeze(1), w / (s + s.sqrt()), value=-1)  # functional.ridge_root_update


class Simulation:
    """Trajectories in progress. Their state is a handful of tensors: see :meth:`state_dict`.

    Random numbers: one key for reward noise and one for action draws is taken from the generators; the n-th number of a
    trajectory depends on the key and on ``problem.ids`` alone.
    """

    def __init__(
        self,
        policy: BanditPolicy,
        problem: BanditProblem,
        *,
        generator: torch.Generator | None = None,
        noise_generator: torch.Generator | None = None,
    ) -> None:
        like = problem.means
        check_same_world("rollout", "dim", policy.dim, "problem", problem.dim)
        check_same_world("rollout", "dtype", policy.dtype, "problem", like.dtype)
        check_same_world("rollout", "device", policy.device, "problem", like.device)
        self.policy, self.problem, self.t = policy, problem, 0
        self.noise_key = stream_key(generator if noise_generator is None else noise_generator, "noise", like.device)
        self.action_key = stream_key(generator, "action", like.device)
        self.arms = FixedArms(problem, policy.ridge_alpha)
        self.gamma = like.new_zeros(problem.batch_shape)  # of the round before, for coldness="lagged"
        self.means = like.movedim(-1, 0).contiguous()  # (K, *B)
        self.best = problem.best_mean
        self.noise_std = torch.as_tensor(problem.noise_std, dtype=like.dtype, device=like.device)

    @torch.no_grad()
    def play(self, rounds: int) -> Iterator[Round]:
        """The next rounds. A round's tensors are views that the next one writes over; beta may change in between."""
        numbers = self.problem.ids.numel() * max(1, self.policy.normals_per_decision)
        block, end = max(1, _BLOCK // max(1, numbers)), self.t + rounds
        while self.t < end:
            start, size = self.t, min(block, end - self.t)
            noise = self._noise(start, size)
            draws = self._draws(start, size)
            for i in range(size):
                decision = self.policy.decide(self.arms.estimate(self.t, self.gamma), mask=self.problem.mask)
                arm = decision.pick(draws[i])
                mean = self.means.gather(0, arm.unsqueeze(0)).squeeze(0)
                reward = mean + noise[i]
                yield Round(self.t, decision, arm, reward, self._regret(decision, mean))
                self.arms.pull(arm, reward)
                if decision.next_gamma is not None:
                    self.gamma = decision.next_gamma
                self.t += 1

    def _noise(self, start: int, count: int) -> Tensor:  # (count, *B)
        dtype = self.means.dtype
        return normals(self.noise_key, self.problem.ids, start=start, count=count, dtype=dtype) * self.noise_std

    def _draws(self, start: int, count: int) -> Tensor:  # (count, *B) uniform, or (count, *B, n) normal
        key, ids, dtype = self.action_key, self.problem.ids, self.means.dtype
        width = self.policy.normals_per_decision
        if not width:
            return uniforms(key, ids, start=start, count=count, dtype=dtype)
        numbers = normals(key, ids, start=start * width, count=count * width, dtype=dtype)
        return numbers.view(count, width, *ids.shape).movedim(1, -1)

    def _regret(self, decision: Decision, mean: Tensor) -> Tensor:
        if decision.probs is None:
            return self.best - mean  # unbiased: the arm was drawn from the policy
        return self.best - (decision.probs.movedim(-1, 0) * self.means).sum(0)  # Eq. 2

    def state_dict(self) -> dict[str, Tensor | int]:
        """All that :meth:`play` needs to go on, for a simulation of the same policy and problem."""
        arms = self.arms
        tensors = {"mu_hat": arms.mu_hat, "width_sq": arms.width_sq, "root": arms.root, "gamma": self.gamma}
        keys = {"noise_key": self.noise_key, "action_key": self.action_key}
        return {"t": self.t, **{name: value.clone() for name, value in (tensors | keys).items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.t = state["t"]
        for name in ("mu_hat", "width_sq", "root"):
            getattr(self.arms, name).copy_(state[name])
        for name in ("gamma", "noise_key", "action_key"):
            setattr(self, name, state[name].to(self.means.device))
