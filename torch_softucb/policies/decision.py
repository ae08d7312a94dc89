"""Inputs and outputs of a policy: the estimates that it decides on, and its decision."""

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
    """Ridge estimates of a set of arms: everything that a policy may base a decision on.

    Attributes:
        mu_hat: ``(*B, K)`` estimated mean reward of each arm.
        width: ``(*B, K)`` norm of each arm in the inverse Gram matrix V^-1.
        num_observations: ``()`` or ``(*B,)`` number of observations so far, float64 or the dtype of ``mu_hat``.
        gamma: ``()`` or ``(*B,)`` coldness of the previous round, in the same dtype.
        perturb: function from standard normal z ``(*B, d)`` to x_i . V^-1/2 z ``(*B, K)``.
        arms: ``(K, d)`` or ``(*B, K, d)`` features.
        root: ``(*B, d, d)`` factor of V^-1, root root^T = V^-1.
        memory: ``(*B, M)`` additional statistics of the policy; M is 0 for most policies.
        running_sums: ``(*B, 3)`` number of observations (discounted), their residual sum of squares and
            log det(V / alpha); None unless the policy keeps them.
        offset: ``(*B,)`` what ``mu_hat`` is relative to; None if it is 0: only policies that estimate it,
            or have a prior, have one.
        summary: ``(*B, S)`` dimensionless numbers about the data so far, named in
            :data:`~torch_softucb.policies.scales.SUMMARY`; None unless the policy estimates its scales.
        prior_mean: ``(*B, K)`` part of ``mu_hat`` that comes from the prior, x . m; None without a prior. ``arms``,
            ``root`` and ``memory`` are then in whitened coordinates, see :mod:`torch_softucb.policies.prior`.
    """

    mu_hat: Tensor  # (*B, K)
    width: Tensor  # (*B, K)
    num_observations: Tensor  # () or (*B,)
    gamma: Tensor  # () or (*B,)
    perturb: Callable[[Tensor], Tensor]  # (*B, d) -> (*B, K)
    arms: Tensor  # (K, d) or (*B, K, d)
    root: Tensor  # (*B, d, d)
    memory: Tensor  # (*B, M)
    running_sums: Tensor | None = None  # (*B, 3)
    offset: Tensor | None = None  # (*B,)
    summary: Tensor | None = None  # (*B, S)
    prior_mean: Tensor | None = None  # (*B, K)

    @property
    def learned_mean(self) -> Tensor:  # (*B, K)
        """Estimated mean of the centred rewards of each arm: ``mu_hat`` without the part that the prior predicts."""
        return self.mu_hat if self.prior_mean is None else self.mu_hat - self.prior_mean

    def centred(self, reward: float) -> Tensor | float:  # (*B, K)
        """Return a reward relative to what the prior predicts for each arm, as ``memory`` has them."""
        if self.prior_mean is None or self.offset is None:
            return reward
        return reward - self.offset.unsqueeze(-1) - self.prior_mean

    def with_prior_mean(self, index: Tensor) -> Tensor:  # (*B, K) -> (*B, K)
        """Return an index that was computed from centred rewards in the unit of ``mu_hat``."""
        return index if self.prior_mean is None else index + self.prior_mean

    @property
    def reported_mean(self) -> Tensor:  # (*B, K)
        """Estimated mean reward of each arm, offset included."""
        return self.mu_hat if self.offset is None else self.mu_hat + self.offset.unsqueeze(-1)


class Slate(NamedTuple):
    """An ordered list of k different arms.

    Attributes:
        arm: ``(*B, k)`` int64, the arms in order.
        log_prob: ``(*B, k)`` log-probability of each arm given the arms before it; None if it has no closed form.
    """

    arm: Tensor  # (*B, k)
    log_prob: Tensor | None  # (*B, k)

    @property
    def slate_log_prob(self) -> Tensor | None:  # (*B,)
        """Log-probability of the whole slate; None if it has no closed form."""
        return None if self.log_prob is None else self.log_prob.sum(-1)


class NativeRule(NamedTuple):
    """Decision rule as plain numbers, for the native kernel (:mod:`torch_softucb.simulation.backends.native`).

    Attributes:
        rule: ``"soft_current"``, ``"soft_lagged"``, ``"soft_smooth"``, ``"greedy"`` or ``"thompson"``.
        scale: ``()`` or ``(*B,)``, or ``(n, 1)`` for n rounds: beta, or the scale of Thompson's draw.
        odds: delta / (1 - delta), for the soft rules.
        smoothing: kappa, for ``"soft_smooth"``.
        epsilon: probability shared by all allowed arms, for ``"greedy"``.
        by_round: whether ``scale`` has one value per round, ``(n, 1)``.
    """

    rule: str
    scale: Tensor  # () or (*B,) or (n, 1)
    odds: float = 0.0
    smoothing: float = 0.0
    epsilon: float = 0.0
    by_round: bool = False


@dataclass(frozen=True, eq=False)
class Decision:
    """Decision of a policy on a set of arms: a probability for each arm, and the numbers behind it.

    Attributes:
        probs: ``(*B, K)`` probability of each arm, 0 at masked arms; None for policies that can only be sampled (LinTS).
        index: ``(*B, K)`` score that the policy ranks arms by; S (Eq. 7) for SoftUCB.
        mu_hat: ``(*B, K)`` estimated mean reward of each arm.
        width: ``(*B, K)`` norm of each arm in the inverse Gram matrix.
        mask: ``(K,)`` or ``(*B, K)``, True = allowed; None if all arms are allowed.
        beta: ``()`` or ``(*B,)`` confidence width, for policies that have one.
        gamma: ``(*B,)`` coldness behind ``probs``, for softmax policies.
        next_gamma: ``(*B,)`` coldness that the next round uses with ``coldness="lagged"``.
        features: ``(K, d)`` or ``(*B, K, d)`` arms that the decision is about; set by :class:`~torch_softucb.SoftUCBHead`.
        bandit: ``(N,)`` rows of the policy's batch whose statistics were used; also set by the head.
        situation: ``(*B, F)`` inputs of the :class:`~torch_softucb.BetaModule`, if beta is a module.
    """

    probs: Tensor  # (*B, K)
    index: Tensor  # (*B, K)
    mu_hat: Tensor  # (*B, K)
    width: Tensor  # (*B, K)
    mask: Tensor | None = None  # (K,) or (*B, K)
    beta: Tensor | None = None  # () or (*B,)
    gamma: Tensor | None = None  # (*B,)
    next_gamma: Tensor | None = None  # (*B,)
    features: Tensor | None = None  # (K, d) or (*B, K, d)
    bandit: Tensor | None = None  # (N,)
    situation: Tensor | None = None  # (*B, F)

    @property
    def batch_shape(self) -> torch.Size:
        """Shape ``(*B,)`` of the batch of bandits or requests."""
        return self.index.shape[:-1]

    @property
    def num_arms(self) -> int:
        """Number of arms K."""
        return self.index.shape[-1]

    def with_request(
        self,
        *,
        features: Tensor,  # (K, d) or (*B, K, d)
        bandit: Tensor | None,  # (N,)
    ) -> Self:
        """Return the same decision together with the request that it answers.

        Args:
            features: arms that the decision is about.
            bandit: rows of the policy's batch whose statistics were used; None for a single bandit.
        """
        return replace(self, features=features, bandit=bandit)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (*B,) int64
        """Draw one arm per bandit or request, with a float64 random number whatever the dtype of ``probs``."""
        own = self.index.device
        device = own if generator is None else generator.device
        noise = torch.rand(self.batch_shape, generator=generator, dtype=torch.float64, device=device)
        return self.pick(noise if device == own else noise.to(own))

    def pick(self, noise: Tensor) -> Tensor:  # (*B,) uniform in [0, 1) -> (*B,) int64
        """Return the arm that the given random numbers select; deterministic."""
        return _draw_arm(self.probs.detach() if self.probs.requires_grad else self.probs, noise)

    def sample_topk(self, k: int, generator: torch.Generator | None = None) -> Slate:
        """Draw a slate of ``k`` arms, one after the other without replacement (Plackett-Luce), by Gumbel top-k."""
        device = self.index.device if generator is None else generator.device
        noise = torch.rand(self.index.shape, generator=generator, dtype=torch.float64, device=device)
        return self.pick_topk(k, noise.to(self.index.device))

    def pick_topk(self, k: int, noise: Tensor) -> Slate:  # (*B, K) uniform in [0, 1), float64
        """Return the slate that the given random numbers select; deterministic."""
        check_slate("Decision.sample_topk", k, self.mask, self.num_arms)
        log_probs = self.log_probs
        arm = _draw_slate(log_probs.detach(), self.index.detach(), noise, k, self.mask)
        return Slate(arm, _slate_log_prob(log_probs, arm))

    @property
    def log_probs(self) -> Tensor:  # (*B, K), -inf at arms of probability 0
        """Log-probabilities of all arms; differentiable, with finite gradients at masked arms too."""
        if self.gamma is None:
            return self.probs.log()
        return torch.log_softmax(masked(self.gamma.unsqueeze(-1) * self.index, self.mask), dim=-1)  # Eq. 8

    def log_prob(self, arm: Tensor) -> Tensor:  # (*B,) -> (*B,)
        """Log-probability of the arms played; differentiable in beta and in the arms' features."""
        check_arm_ids("Decision.log_prob", arm, self.batch_shape, self.num_arms)
        return self.log_probs.gather(-1, arm.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:  # (*B,)
        """Entropy of the policy in nats; its gradient is finite at masked arms."""
        played = self.probs > 0
        safe = torch.where(played, self.log_probs, torch.zeros_like(self.probs))
        return -(self.probs * safe).sum(-1)
