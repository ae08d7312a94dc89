"""Small value types with the shape of every tensor: what flows between problems, policies and rollouts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import (
    check_arm_ids,
    check_finite,
    check_float_tensor,
    check_has_rows,
    check_ids,
    check_mask,
    check_noise_std,
    check_same_dtype,
    check_shape,
    check_slate,
    check_turn,
)
from torch_softucb.functional.draw import draw_arm
from torch_softucb.functional.policy import masked
from torch_softucb.functional.slate import draw_slate, slate_log_prob


class RidgeState(NamedTuple):
    """What a bandit remembers; all float64."""

    V: Tensor  # (*B, d, d) alpha I + sum x x^T
    root: Tensor  # (*B, d, d) cache: root root^T = V^-1
    b: Tensor  # (*B, d) sum x y
    seen: Tensor  # (*B,) observations so far
    gamma: Tensor  # (*B,) coldness carried to the next round, used by coldness="lagged" only
    memory: Tensor  # (*B, M) what else a policy keeps; M is 0 for most


class Estimate(NamedTuple):
    """What a policy decides on; no policy looks behind it."""

    mu_hat: Tensor  # (*B, K)
    width: Tensor  # (*B, K)
    seen: Tensor  # () or (*B,) observations so far, float64 or mu_hat's dtype
    gamma: Tensor  # () or (*B,) coldness of the round before, likewise
    perturb: Callable[[Tensor], Tensor]  # standard normal z (*B, d) -> x_i . V^-1/2 z, (*B, K)
    arms: Tensor  # (K, d) or (*B, K, d)
    root: Tensor  # (*B, d, d)
    memory: Tensor  # (*B, M)
    tally: Tensor | None = None  # (*B, 3) observations (less the forgotten), their residual sum, log det V / alpha


class Slate(NamedTuple):
    """Different arms in order; ``log_prob`` is None where arms have no probability in closed form."""

    arm: Tensor  # (*B, k) int64
    log_prob: Tensor | None  # (*B, k) of each item given those before it; the slate's is their sum

    @property
    def slate_log_prob(self) -> Tensor | None:  # (*B,)
        return None if self.log_prob is None else self.log_prob.sum(-1)


class NativeRule(NamedTuple):
    """How a policy decides, in numbers, for the native kernel (:mod:`torch_softucb.native`)."""

    kind: str  # "soft_current", "soft_lagged", "soft_smooth", "greedy" or "thompson"
    scale: Tensor  # () or (*B,), or (n, 1) for n rounds: beta, or the scale of Thompson's draw
    odds: float = 0.0  # soft: delta / (1 - delta)
    smoothing: float = 0.0  # soft_smooth
    epsilon: float = 0.0  # greedy: probability shared by all allowed arms
    by_round: bool = False  # is scale (n, 1)?


@dataclass(frozen=True, eq=False)
class Decision:
    """A policy's answer to a set of arms: what it would play, with which probability, and why."""

    probs: Tensor  # (*B, K), 0 at masked arms
    index: Tensor  # (*B, K) what the policy ranks arms by; S (Eq. 7) for SoftUCB
    mu_hat: Tensor  # (*B, K)
    width: Tensor  # (*B, K)
    mask: Tensor | None = None  # (K,) or (*B, K), True = allowed
    beta: Tensor | None = None  # () or (*B,) confidence width, of policies that have one
    gamma: Tensor | None = None  # (*B,) coldness behind probs, of softmax policies
    next_gamma: Tensor | None = None  # (*B,) coldness for the next round (lagged)
    features: Tensor | None = None  # (K, d) or (*B, K, d) what was decided on; from a SoftUCBHead
    bandit: Tensor | None = None  # (N,) whose statistics were used; likewise
    situation: Tensor | None = None  # (*B, F) what a BetaModule looked at

    @property
    def batch_shape(self) -> torch.Size:
        return self.index.shape[:-1]

    @property
    def num_arms(self) -> int:
        return self.index.shape[-1]

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (*B,) int64
        """Draw one arm for every bandit or request."""
        like = self.index
        device = like.device if generator is None else generator.device
        noise = torch.rand(self.batch_shape, generator=generator, dtype=like.dtype, device=device)
        return self.pick(noise if device == like.device else noise.to(like.device))

    def pick(self, noise: Tensor) -> Tensor:  # (*B,) uniform in [0, 1) -> (*B,) int64
        """The arm that these random numbers choose; the same numbers choose the same arm."""
        return draw_arm(self.probs.detach() if self.probs.requires_grad else self.probs, noise)

    def sample_topk(self, k: int, generator: torch.Generator | None = None) -> Slate:
        """Draw a slate of ``k`` arms, one after the other without replacement (Plackett-Luce), by Gumbel top-k."""
        device = self.index.device if generator is None else generator.device
        noise = torch.rand(self.index.shape, generator=generator, dtype=torch.float64, device=device)
        return self.pick_topk(k, noise.to(self.index.device))

    def pick_topk(self, k: int, noise: Tensor) -> Slate:  # (*B, K) uniform in [0, 1), float64
        """The slate that these random numbers choose."""
        check_slate("Decision.sample_topk", k, self.mask, self.num_arms)
        log_probs = self.log_probs
        arm = draw_slate(log_probs.detach(), self.index.detach(), noise, k=k, mask=self.mask)
        return Slate(arm, slate_log_prob(log_probs, arm))

    @property
    def log_probs(self) -> Tensor:  # (*B, K), -inf at arms of probability 0
        """Log-probabilities, differentiable; finite gradients at masked arms too."""
        if self.gamma is None:
            return self.probs.log()
        return torch.log_softmax(masked(self.gamma.unsqueeze(-1) * self.index, self.mask), dim=-1)

    def log_prob(self, arm: Tensor) -> Tensor:  # (*B,) -> (*B,)
        """Log-probability of the arms played; differentiable in beta and in the arms' features."""
        check_arm_ids("Decision.log_prob", arm, self.batch_shape, self.num_arms)
        return self.log_probs.gather(-1, arm.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:  # (*B,)
        """Entropy of the policy in nats; its gradient is finite at masked arms."""
        played = self.probs > 0
        safe = torch.where(played, self.log_probs, torch.zeros_like(self.probs))
        return -(self.probs * safe).sum(-1)


@dataclass(frozen=True, eq=False)
class BanditProblem:
    """A batch of linear bandits whose truth is known: what a rollout plays against.

    ``ids`` name the trajectories: random numbers depend on them, so ``problem[32:64]`` plays as it would have played as
    part of ``problem``.
    """

    arms: Tensor  # (K, d) shared, or (*B, K, d)
    means: Tensor  # (*B, K) true mean reward
    noise_std: float | Tensor = 0.5  # number or (*B,): standard deviation of the reward noise (D7)
    mask: Tensor | None = None  # (K,) or (*B, K), True = allowed
    ids: Tensor = field(default=None)  # type: ignore[assignment]  # (*B,) int64
    turned: Tensor | None = None  # (*B, K) mean rewards after a quarter turn; None: rewards do not drift
    turn: float | Tensor = 0.0  # number or (*B,): radians a round by which theta turns

    def __post_init__(self) -> None:
        where = "BanditProblem"
        check_float_tensor(where, "arms", self.arms)
        check_float_tensor(where, "means", self.means, device=self.arms.device)
        check_same_dtype(where, "means", self.means, "the arms'", self.arms.dtype)
        k, shape = self.means.shape[-1:], self.arms.shape
        expected = "(K, d) or (*B, K, d), with means (*B, K)"
        check_shape(where, "arms", shape, self.arms.dim() >= 2 and shape[:-1] in (k, self.means.shape), expected)
        check_shape(where, "arms", shape, shape[-2] >= 1 and shape[-1] >= 1, "with at least one arm and one feature")
        check_finite(where, "arms", self.arms)
        check_finite(where, "means", self.means)
        check_mask(where, self.mask, self.means.shape, device=self.arms.device)
        check_noise_std(where, self.noise_std, self.batch_shape)
        if self.ids is None:
            count = self.batch_shape.numel()
            ids = torch.arange(count, device=self.arms.device).reshape(self.batch_shape)
            object.__setattr__(self, "ids", ids)
        check_ids(where, self.ids, self.batch_shape)
        if self.turned is not None:
            check_float_tensor(where, "turned", self.turned, device=self.arms.device)
            check_same_dtype(where, "turned", self.turned, "the arms'", self.arms.dtype)
            fits = self.turned.shape == self.means.shape
            check_shape(where, "turned", self.turned.shape, fits, f"of means {tuple(self.means.shape)}")
            check_finite(where, "turned", self.turned)
        check_turn(where, self.turn, self.batch_shape, drifts=self.turned is not None)

    @property
    def batch_shape(self) -> torch.Size:
        return self.means.shape[:-1]

    @property
    def num_arms(self) -> int:
        return self.means.shape[-1]

    @property
    def dim(self) -> int:
        return self.arms.shape[-1]

    @property
    def shared_arms(self) -> bool:
        return self.arms.dim() == 2

    def means_at(self, t: int) -> Tensor:  # (*B, K)
        """Mean rewards of round ``t``, from 0: theta turns in a plane, and so do they."""
        if self.turned is None:
            return self.means
        angle = torch.as_tensor(self.turn, dtype=self.means.dtype, device=self.means.device).unsqueeze(-1) * t
        return torch.cos(angle) * self.means + torch.sin(angle) * self.turned

    @property
    def best_mean(self) -> Tensor:  # (*B,) of the first round
        return masked(self.means, self.mask).amax(-1)

    def __getitem__(self, rows: int | slice | Tensor) -> "BanditProblem":
        """Some of the problems, under their own ids; rows count along the first batch dimension."""
        check_has_rows("BanditProblem", self.batch_shape)

        def cut(value: Tensor, trailing: int) -> Tensor:
            return value if value.dim() == trailing else value[rows]

        noise = cut(self.noise_std, 0) if isinstance(self.noise_std, Tensor) else self.noise_std
        mask = None if self.mask is None else cut(self.mask, 1)
        turned = None if self.turned is None else cut(self.turned, 1)
        turn = cut(self.turn, 0) if isinstance(self.turn, Tensor) else self.turn
        return BanditProblem(cut(self.arms, 2), cut(self.means, 1), noise, mask, self.ids[rows], turned, turn)

    def repeat(self, count: int) -> "BanditProblem":
        """``count`` trajectories of each problem, as a new first batch dimension, each with an id of its own."""

        def grow(value: Tensor, trailing: int) -> Tensor:
            return value if value.dim() == trailing else value.expand(count, *value.shape)

        single = not self.batch_shape
        arms = self.arms if single else grow(self.arms, 2)
        noise = grow(self.noise_std, 0) if isinstance(self.noise_std, Tensor) else self.noise_std
        mask = None if self.mask is None else (self.mask if single else grow(self.mask, 1))
        turned = None if self.turned is None else self.turned.expand(count, *self.turned.shape)
        turn = grow(self.turn, 0) if isinstance(self.turn, Tensor) else self.turn
        return BanditProblem(arms, self.means.expand(count, *self.means.shape), noise, mask, turned=turned, turn=turn)

    def to(self, target: torch.dtype | torch.device | str) -> "BanditProblem":
        """The same problems in another dtype or on another device."""
        noise = self.noise_std.to(target) if isinstance(self.noise_std, Tensor) else self.noise_std
        moved = not isinstance(target, torch.dtype)
        mask = self.mask.to(target) if moved and self.mask is not None else self.mask
        ids = self.ids.to(target) if moved else self.ids
        turned = None if self.turned is None else self.turned.to(target)
        turn = self.turn.to(target) if isinstance(self.turn, Tensor) else self.turn
        moved_on = {"arms": self.arms.to(target), "means": self.means.to(target), "turned": turned}
        return replace(self, **moved_on, turn=turn, noise_std=noise, mask=mask, ids=ids)  # type: ignore[arg-type]


SCORES = (
    "present",  # of every round, for a whole trajectory's gradient: see functional/score.py
    "score",
    "best_prob",  # these four tell the control variate how the truly best arm stands: its probability, S and width,
    "best_index",
    "best_width",
    "mean_width",  # and the mean width under the policy
    "coverage",  # Eq. 3's
    "delta_present",  # the first two, of delta's logit
    "delta_score",
    "reward_slope",  # Eq. 13's parts of the round
    "sum_width",
)


class GradientTerms(NamedTuple):
    """Eq. 13 of every trajectory, its two parts apart and divided by T (departure D4)."""

    reward: Tensor  # (*B,)
    penalty: Tensor  # (*B,) at eta = 1: mean over rounds of sum_i width_i
    value: Tensor  # (*B,) the objective behind `reward`: mean over rounds of sum_i p_i mu_hat_i


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What a rollout saw."""

    regret: Tensor  # (T, *B) expected regret of each round
    gradient: GradientTerms | None = None
    records: Mapping[str, Tensor] = field(default_factory=dict)  # name -> (T, *B) or (T, *B, K), as asked for
    scores: Mapping[str, Tensor] = field(default_factory=dict)  # name of SCORES -> (T, *B), if they were asked for
    situation: Tensor | None = None  # (T, *B, F) or (T, F), with scores, for a beta that is a BetaModule

    @property
    def cumulative_regret(self) -> Tensor:  # (T, *B)
        return self.regret.cumsum(0)
