"""Bootstrap Thompson sampling: the best arm of a model fitted to a bootstrap of the history."""

from functools import partial
from typing import Unpack

import torch
from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.policies._checks import check_keywords
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.fixed_set import ArmPolicy
from torch_softucb.policies.sampled import sampled_decision
from torch_softucb.policies.statistics import PolicyKwargs


class BootstrapThompson(ArmPolicy):
    """Policy that fits a randomly weighted ridge regression around a random prior and plays its best arm.

    Each past observation gets a weight of mean and variance 1; the prior mean is theta_0 ~ N(0, prior_std^2 I).

    The original paper resamples the history with replacement and adds artificial data as a prior; independent weights are
    the usual parallel form. The sum of weights and the weighted sum of rewards of an arm are approximated as normal with
    their exact means and covariances (weights clamped at 0), so a decision takes 2 K + d random numbers whatever the length
    of the history.

    Args:
        dim: number of features d.
        num_arms: number of arms K.
        prior_std: standard deviation of the entries of theta_0; with a prior, theta_0 ~ N(m, prior_std^2 V_0^-1).
        **policy_kwargs: ``ridge_alpha``, ``refresh_every``, ``prior``, ``device``, ``dtype``, as in
            :class:`~torch_softucb.BanditPolicy`.

    I. Osband, B. Van Roy: Bootstrapped Thompson sampling and deep exploration, 2015; linear version.

    Example:
        >>> policy = BootstrapThompson(2, num_arms=2)
        >>> decision = policy(torch.eye(2))
        >>> policy.update(torch.tensor([0.0, 1.0]), torch.tensor(1.0), decision=decision, arm=torch.tensor(1))
        >>> policy(torch.eye(2)).draw(torch.zeros(6))  # weight 1, no prior noise: the ridge estimate
        tensor([0.0000, 0.5000])
    """

    own_settings = ("prior_std",)

    def __init__(self, dim: int, num_arms: int, *, prior_std: float = 1.0, **policy_kwargs: Unpack[PolicyKwargs]) -> None:
        check_keywords("BootstrapThompson", policy_kwargs, PolicyKwargs.__annotations__)
        super().__init__(dim, num_arms, **policy_kwargs)
        self.prior_std = check_number("BootstrapThompson", "prior_std", prior_std, low=0.0)

    @property
    def normals_per_decision(self) -> int:
        """Standard normal numbers per decision: 2 per arm and d for the prior."""
        return 2 * self.num_arms + self.dim

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        """Draw weights and prior, fit, and play the best arm."""
        count, total, squares = self._moments_of(estimate)
        mean = total / count.clamp(min=1)
        spread = (squares - count * mean.square()).clamp(min=0).sqrt()  # of an arm's rewards around their mean
        draw = partial(_draw_index, estimate, count, mean, spread, self.ridge_alpha, self.prior_std)
        return sampled_decision("BootstrapThompson", estimate, mask, draw, num_normals=self.normals_per_decision)


def _draw_index(
    estimate: Estimate,
    count: Tensor,  # (*B, K)
    mean: Tensor,  # (*B, K)
    spread: Tensor,  # (*B, K)
    alpha: float,
    prior_std: float,
    z: Tensor,  # (*B, 2 K + d)
) -> Tensor:  # (*B, K)
    arms = estimate.arms
    k, d = arms.shape[-2:]
    weight = (count + count.sqrt() * z[..., :k]).clamp(min=0)
    reward = weight * mean + spread * z[..., k : 2 * k]
    eye = alpha * torch.eye(d, dtype=arms.dtype, device=arms.device)
    V = eye + arms.mT @ (weight.unsqueeze(-1) * arms)
    b = (arms.mT @ reward.unsqueeze(-1)).squeeze(-1) + alpha * prior_std * z[..., 2 * k :]
    return estimate.with_prior_mean((arms @ torch.linalg.solve_ex(V, b)[0].unsqueeze(-1)).squeeze(-1))
