"""A policy at play against a batch of problems, round by round, all trajectories at once."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.functional.confidence import _coverage
from torch_softucb.functional.gradient import _reward_and_gradient
from torch_softucb.functional.regret import _expected_regret
from torch_softucb.functional.score_function import _delta_slope, _logit_slope, _phi, _trajectory_score
from torch_softucb.functional.softmax import masked
from torch_softucb.policies._checks import check_offered
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.problems.base import BanditProblem
from torch_softucb.rng import normals, stream_key, uniforms
from torch_softucb.simulation._checks import check_compile, check_same_world, check_scored
from torch_softucb.simulation.backends.compiled import Fast, compiled_round
from torch_softucb.simulation.backends.native import native_rounds
from torch_softucb.simulation.state import FixedArms, ForgettingArms
from torch_softucb.simulation.trajectory import GradientTerms

_BLOCK = 2**15  # random numbers drawn at once, per stream: they stay in the cache
# a native call copies every trajectory's state in and out: it should play more rounds, 64 if their numbers find room
_NATIVE_BLOCK, _NATIVE_ROUNDS, _NATIVE_MOST = 2**18, 64, 2**21


class Round(NamedTuple):
    """A round of every trajectory, or several that nobody looks at, taken together."""

    t: int  # the first of them, from 0
    regret: Tensor  # (n, *B) expected, Eq. 2
    gradient: GradientTerms | None  # summed over the n rounds
    decision: Decision | None  # this and the rest: of a round that is looked at (n = 1)
    arm: Tensor | None  # (*B,)
    reward: Tensor | None  # (*B,)
    scores: Tensor | None = None  # (11, n, *B) of types.SCORES, if they are wanted
    situation: Tensor | None = None  # (n, *B, F) or (n, F), with scores, of a beta that is a module


class Simulation:
    """Trajectories in progress. Their state is a handful of tensors: see :meth:`state_dict`.

    Random numbers: one key for reward noise and one for action draws is taken from the generators; the n-th number of a
    trajectory depends on the key and on ``problem.ids`` alone.

    ``gradient``, ``compile`` and ``discount`` are :func:`torch_softucb.rollout`'s; ``scores`` gives every round's parts of
    a whole trajectory's gradient.
    """

    def __init__(
        self,
        policy: BanditPolicy,
        problem: BanditProblem,
        *,
        generator: torch.Generator | None = None,
        noise_generator: torch.Generator | None = None,
        gradient: bool = False,
        scores: bool = False,
        discount: float = 1.0,
        compile: bool | str = False,
    ) -> None:
        like = problem.means
        check_same_world("rollout", "dim", policy.dim, "problem", problem.dim)
        check_same_world("rollout", "dtype", policy.dtype, "problem", like.dtype)
        check_same_world("rollout", "device", policy.device, "problem", like.device)
        check_compile("rollout", compile)
        self.policy, self.problem, self.gradient, self.scores, self.t = policy, problem, gradient, scores, 0
        check_scored("rollout", policy, scores)
        self.noise_key = stream_key(generator if noise_generator is None else noise_generator, "noise", like.device)
        self.action_key = stream_key(generator, "action", like.device)
        check_number("rollout", "discount", discount, low=0.0, high=1.0, open_low=True, closed_high=True)
        if discount == 1.0:
            self.arms = FixedArms(problem, policy.ridge_alpha, running_sums=policy.keeps_sums)
        else:
            self.arms = ForgettingArms(problem, policy.ridge_alpha, discount=discount, running_sums=policy.keeps_sums)
        self.gamma = like.new_zeros(problem.batch_shape)  # of the round before, for coldness="lagged"
        memory = policy._fresh_memory
        fresh = like.new_empty(0) if memory is None else memory.to(like)
        self.memory = fresh.expand(*problem.batch_shape, -1).clone()  # (*B, M)
        self.means = like.movedim(-1, 0).clone(memory_format=torch.contiguous_format)  # (K, *B): drift writes over it
        self.best = problem.best_mean.contiguous()
        self.drift: tuple[Tensor, Tensor, Tensor] | None = None
        # means of the first round and a quarter turn later, (K, B), and the turn of a round, (B,)
        if problem.rotated_means is not None:
            drift_rate = torch.as_tensor(problem.drift_rate, dtype=like.dtype, device=like.device).expand(
                problem.batch_shape
            )
            first, later = (each.movedim(-1, 0).reshape(problem.num_arms, -1) for each in (like, problem.rotated_means))
            self.drift = (first.contiguous(), later.contiguous(), drift_rate.reshape(-1).contiguous())
        self.noise_std = torch.as_tensor(problem.noise_std, dtype=like.dtype, device=like.device)
        self._native = native_rounds(self) if compile == "native" else None
        self._compiled = compiled_round(like.device) if compile is True and not scores else None

    @torch.no_grad()
    def play(
        self, rounds: int, *, recorded: Callable[[int], bool] = lambda t: True, stretch: int | None = None
    ) -> Iterator[Round]:
        """The next rounds. A round's tensors are views that the next one writes over; beta may change in between.

        ``look(t)`` says in which rounds the decision is wanted: those are played eagerly, the others as ``compile`` says,
        at most ``stretch`` of them at once.
        """
        numbers = max(1, self.problem.ids.numel() * max(1, self.policy.normals_per_decision))  # a round
        most = min(max(_NATIVE_BLOCK, _NATIVE_ROUNDS * numbers), _NATIVE_MOST) if self._native is not None else _BLOCK
        block, end = max(1, most // numbers), self.t + rounds
        while self.t < end:
            start, size = self.t, min(block, end - self.t)
            noise, draws = self._noise(start, size), self._draws(start, size)
            i = 0
            while i < size:
                self.arms.check(self.t)
                self._face(self.t)
                if self._native is not None and not recorded(self.t):
                    longest = 1 if self.policy.needs_estimate else stretch
                    limit = size if longest is None else min(size, i + longest)
                    stop = next((j for j in range(i + 1, limit) if recorded(start + j)), limit)
                    yield self._stretch(self._native, noise[i:stop], draws[i:stop])
                elif self._compiled is not None and not recorded(self.t):
                    stop = i + 1
                    yield self._stretch(self._compiled, noise[i], draws[i])
                else:
                    stop = i + 1
                    yield from self._eager(noise[i], draws[i])
                i = stop
        self.arms.check(self.t - 1)

    def _eager(self, noise: Tensor, draw: Tensor) -> Iterator[Round]:
        decision, arm, reward, regret, gradient = self.decide(self.num_observations(self.t), self.gamma, noise, draw)
        scores, looked = self._scores(decision, arm), decision.situation
        looked = None if looked is None or scores is None else looked.unsqueeze(0)
        yield Round(self.t, regret.unsqueeze(0), gradient, decision, arm, reward, scores, looked)
        self.arms.pull(arm, reward)
        if self.policy.remembers:
            self.memory = self.policy.remember(self.memory, arm, reward, decision)
        if decision.next_gamma is not None:
            self.gamma = decision.next_gamma
        self.t += 1

    def _stretch(self, fast: Fast, noise: Tensor, draws: Tensor) -> Round:
        start = self.t
        regret, gradient, scores, situation = fast(self, noise, draws)
        self.t += len(regret)
        return Round(start, regret, gradient, None, None, None, scores, situation)

    def _face(self, t: int) -> None:
        """Bring means that drift to round ``t``."""
        if self.problem.rotated_means is not None:
            self.means.copy_(self.problem.means_at(t).movedim(-1, 0))
            self.best.copy_(masked(self.present_means, self.problem.mask).amax(-1))

    @property
    def present_means(self) -> Tensor:  # (*B, K)
        return self.means.movedim(0, -1)

    def _scores(self, decision: Decision, arm: Tensor) -> Tensor | None:  # (11, 1, *B)
        if not self.scores:
            return None
        policy = self.policy
        assert isinstance(policy, SoftUCBPolicy)
        assert decision.beta is not None
        assert decision.gamma is not None
        phi = _phi(decision.mu_hat, decision.width, decision.beta, decision.mask)
        slope = _logit_slope(
            decision.width,
            phi,
            decision.index,
            decision.gamma,
            delta=policy.delta,
            smoothing=policy.kappa,
            mask=decision.mask,
        )
        means = self.present_means
        _, present, score = _trajectory_score(decision.probs, slope, means, arm)
        sharper = _delta_slope(decision.index, delta=policy.delta, smoothing=policy.kappa, mask=decision.mask)
        _, *of_delta = _trajectory_score(decision.probs, sharper, means, arm)
        best_arm = masked(means, decision.mask).argmax(-1, keepdim=True)
        shown = (decision.probs, decision.index, decision.width)
        of_best = [value.gather(-1, best_arm).squeeze(-1) for value in shown]
        covered = _coverage(means, decision.mu_hat, decision.width, decision.beta, decision.mask)
        mean_width = (decision.probs * decision.width).sum(-1)
        _, eq_13 = _reward_and_gradient(decision.probs, decision.mu_hat, decision.width, decision.gamma)
        widths = F.sum_width(decision.width, mask=decision.mask)
        return torch.stack((present, score, *of_best, mean_width, covered, *of_delta, eq_13, widths)).unsqueeze(1)

    def num_observations(self, t: int) -> Tensor:
        return torch.full((), t, dtype=self.means.dtype, device=self.means.device)

    def decide(
        self, num_observations: Tensor, gamma: Tensor, noise: Tensor, draw: Tensor
    ) -> tuple[Decision, Tensor, Tensor, Tensor, GradientTerms | None]:
        """One round up to the reward: decision, arm, reward, expected regret, terms of Eq. 13 if they are wanted."""
        decision = self.policy.decide(self.arms.estimate(num_observations, gamma, self.memory), mask=self.problem.mask)
        arm = decision.pick(draw)
        mean = self.means.gather(0, arm.unsqueeze(0)).squeeze(0)
        return decision, arm, mean + noise, self._regret(decision, mean), self._terms(decision)

    def _terms(self, decision: Decision) -> GradientTerms | None:
        if not self.gradient:
            return None
        gamma = check_offered("rollout", "gradient", decision.gamma, type(self.policy).__name__)
        value, slope = _reward_and_gradient(decision.probs, decision.mu_hat, decision.width, gamma)
        return GradientTerms(slope, F.sum_width(decision.width, mask=decision.mask), value)

    def _noise(self, start: int, count: int) -> Tensor:  # (count, *B)
        dtype = self.means.dtype
        return normals(self.noise_key, self.problem.ids, start=start, count=count, dtype=dtype).mul_(self.noise_std)

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
        return _expected_regret(decision.probs.movedim(-1, 0), self.means, self.best, dim=0)

    def state_dict(self) -> dict[str, Tensor | int]:
        """All that :meth:`play` needs to go on, for a simulation of the same policy and problem."""
        own = {"gamma": self.gamma, "memory": self.memory, "noise_key": self.noise_key, "action_key": self.action_key}
        return {"t": self.t, **{name: value.clone() for name, value in (self.arms.state_dict() | own).items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.t = state["t"]
        for name, value in self.arms.state_dict().items():
            value.copy_(state[name])
        for name in ("gamma", "memory", "noise_key", "action_key"):
            setattr(self, name, state[name].to(self.means.device, copy=True))  # play writes into them
