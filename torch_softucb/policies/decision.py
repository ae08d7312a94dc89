"""What a policy decides on, and its answer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_ids
from torch_softucb.functional.sampling import _draw_arm, _draw_slate, _slate_log_prob
from torch_softucb.functional.softmax import masked
from torch_softucb.policies._checks import check_slate


class Estimate(NamedTuple):
    """What a policy decides on; no policy looks behind it."""

    mu_hat: Tensor  # (*B, K)
    width: Tensor  # (*B, K)
    num_observations: Tensor  # () or (*B,) observations so far, float64 or mu_hat's dtype
    gamma: Tensor  # () or (*B,) coldness of the round before, likewise
    perturb: Callable[[Tensor], Tensor]  # standard normal z (*B, d) -> x_i . V^-1/2 z, (*B, K)
    arms: Tensor  # (K, d) or (*B, K, d)
    root: Tensor  # (*B, d, d)
    memory: Tensor  # (*B, M)
    running_sums: Tensor | None = None  # (*B, 3) observations (less the forgotten), their residual sum, log det V / alpha


class Slate(NamedTuple):
    """Different arms in order; ``log_prob`` is None where arms have no probability in closed form."""

    arm: Tensor  # (*B, k) int64
    log_prob: Tensor | None  # (*B, k) of each item given those before it; the slate's is their sum

    @property
    def slate_log_prob(self) -> Tensor | None:  # (*B,)
        return None if self.log_prob is None else self.log_prob.sum(-1)


class NativeRule(NamedTuple):
    """How a policy decides, in numbers, for the native kernel (:mod:`torch_softucb.simulation.backends.native`)."""

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

    def with_request(self, *, features: Tensor, bandit: Tensor | None) -> Self:
        """Return the same decision together with the request that it answers."""
        return replace(self, features=features, bandit=bandit)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (*B,) int64
        """Draw one arm for every bandit or request."""
        like = self.index
        device = like.device if generator is None else generator.device
        noise = torch.rand(self.batch_shape, generator=generator, dtype=like.dtype, device=device)
        return self.pick(noise if device == like.device else noise.to(like.device))

    def pick(self, noise: Tensor) -> Tensor:  # (*B,) uniform in [0, 1) -> (*B,) int64
        """The arm that these random numbers choose; the same numbers choose the same arm."""
        return _draw_arm(self.probs.detach() if self.probs.requires_grad else self.probs, noise)

    def sample_topk(self, k: int, generator: torch.Generator | None = None) -> Slate:
        """Draw a slate of ``k`` arms, one after the other without replacement (Plackett-Luce), by Gumbel top-k."""
        device = self.index.device if generator is None else generator.device
        noise = torch.rand(self.index.shape, generator=generator, dtype=torch.float64, device=device)
        return self.pick_topk(k, noise.to(self.index.device))

    def pick_topk(self, k: int, noise: Tensor) -> Slate:  # (*B, K) uniform in [0, 1), float64
        """The slate that these random numbers choose."""
        check_slate("Decision.sample_topk", k, self.mask, self.num_arms)
        log_probs = self.log_probs
        arm = _draw_slate(log_probs.detach(), self.index.detach(), noise, k, self.mask)
        return Slate(arm, _slate_log_prob(log_probs, arm))

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
