"""Bootstrap Thompson sampling: the best arm of a model fitted to a bootstrap of the history."""

import torch
from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.policies._checks import check_arms_fit
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.fixed_set import ArmPolicy, sampled


class BootstrapThompson(ArmPolicy):
    """Gives every past observation a weight of mean and variance 1, draws a prior theta_0 ~ N(0, prior_std^2 I), fits
    weighted ridge regression around theta_0 and plays its best arm.

    The source resamples the history with replacement and adds artificial data as a prior; independent weights are its usual
    parallel form. An arm's sum of weights and weighted sum of rewards are taken as normal with their exact means and
    covariances (weights not below 0): a decision takes 2 K + d random numbers whatever the length of the history.

    Args:
        dim: number of features d.
        num_arms: K.
        prior_std: standard deviation of theta_0's entries.

    I. Osband, B. Van Roy: Bootstrapped Thompson sampling and deep exploration, 2015; linear version.

    Example:
        >>> policy = BootstrapThompson(2, num_arms=2)
        >>> decision = policy(torch.eye(2))
        >>> policy.update(torch.tensor([0.0, 1.0]), torch.tensor(1.0), decision=decision, arm=torch.tensor(1))
        >>> policy(torch.eye(2)).draw(torch.zeros(6))  # weight 1, no prior noise: the ridge estimate
        tensor([0.0000, 0.5000])
    """

    def __init__(
        self,
        dim: int,
        num_arms: int,
        *,
        prior_std: float = 1.0,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        kind = {"refresh_every": refresh_every, "device": device, "dtype": dtype}
        super().__init__(dim, num_arms, ridge_alpha=ridge_alpha, **kind)  # type: ignore[arg-type]
        self.prior_std = check_number("BootstrapThompson", "prior_std", prior_std, low=0.0)
        self.normals_per_decision = 2 * num_arms + self.dim

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        k, d = self.num_arms, self.dim
        check_arms_fit("BootstrapThompson", k, estimate.mu_hat.shape[-1])
        count, total, squares = (part.to(estimate.mu_hat.dtype) for part in self.moments(estimate.memory))
        mean = total / count.clamp(min=1)
        inner = (squares - count * mean.square()).clamp(min=0).sqrt()  # of the rewards of one arm around their mean
        arms, alpha, prior = estimate.arms, self.ridge_alpha, self.prior_std

        def draw(z: Tensor) -> Tensor:  # (*B, 2 K + d)
            weight = (count + count.sqrt() * z[..., :k]).clamp(min=0)
            reward = weight * mean + inner * z[..., k : 2 * k]
            eye = alpha * torch.eye(d, dtype=arms.dtype, device=arms.device)
            V = eye + arms.mT @ (weight.unsqueeze(-1) * arms)
            b = (arms.mT @ reward.unsqueeze(-1)).squeeze(-1) + alpha * prior * z[..., 2 * k :]
            index: Tensor = (arms @ torch.linalg.solve_ex(V, b)[0].unsqueeze(-1)).squeeze(-1)
            return index

        return sampled(self, estimate, mask, draw)
