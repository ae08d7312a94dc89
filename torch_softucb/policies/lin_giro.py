"""LinGiro: a bootstrap of the history, made to explore by pseudo-rewards at both ends of the range."""

import torch
from torch import Tensor

from torch_softucb.checks import check_number, check_span
from torch_softucb.policies._checks import check_arms_fit
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.fixed_set import ArmPolicy, basis_first, gram, sampled


class LinGiro(ArmPolicy):
    """Keeps, beside every reward, ``pseudo`` rewards at the low end and as many at the high end; draws from each arm's list,
    with replacement, as many as there are; fits ridge regression to the draw and plays its best arm.

    With ridge weight (1 + 2 a) alpha, theta = V^-1 sum_k x_k R_k / (1 + 2 a), R_k the sum of arm k's draw. R_k is taken as
    normal with the exact mean and variance of that sum, which depend on the arm's first two moments only: a decision takes K
    random numbers whatever the length of the history.
    The first d rounds play d arms that span the features; the source plays every arm once, which features make needless.

    Args:
        dim: number of features d.
        num_arms: K.
        pseudo: a, pseudo-rewards at either end for each reward.
        reward_low: lower end of the rewards' range.
        reward_high: upper end.

    B. Kveton, C. Szepesvari, S. Vaswani, Z. Wen, M. Ghavamzadeh, T. Lattimore: Garbage in, reward out: bootstrapping
    exploration in multi-armed bandits, 2018 (ICML 2019); here over linear features.

    Example:
        >>> policy = LinGiro(2, num_arms=2)
        >>> for arm in (0, 1):
        ...     paid = torch.tensor(float(arm))
        ...     policy.update(torch.eye(2)[arm], paid, decision=policy(torch.eye(2)), arm=torch.tensor(arm))
        >>> policy(torch.eye(2)).draw(torch.zeros(2))  # half (V^-1) of the draws' means, (0 + 0 + 1) / 3 and (1 + 0 + 1) / 3
        tensor([0.1667, 0.3333])
    """

    def __init__(
        self,
        dim: int,
        num_arms: int,
        *,
        pseudo: float = 1.0,
        reward_low: float = 0.0,
        reward_high: float = 1.0,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        kind = {"refresh_every": refresh_every, "device": device, "dtype": dtype}
        super().__init__(dim, num_arms, ridge_alpha=ridge_alpha, **kind)  # type: ignore[arg-type]
        self.pseudo = check_number("LinGiro", "pseudo", pseudo, low=0.0)
        self.reward_low, self.reward_high = check_span("LinGiro", reward_low, reward_high)
        self.normals_per_decision = num_arms

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        check_arms_fit("LinGiro", self.num_arms, estimate.mu_hat.shape[-1])
        count, total, squares = (part.to(estimate.mu_hat.dtype) for part in self.moments(estimate.memory))
        a, low, high = self.pseudo, self.reward_low, self.reward_high
        size = (1 + 2 * a) * count  # of an arm's list, and of its draw
        safe = size.clamp(min=1)
        mean = (total + a * count * (low + high)) / safe
        second = (squares + a * count * (low**2 + high**2)) / safe
        spread = (size * (second - mean.square()).clamp(min=0)).sqrt()
        products = gram(estimate)

        def draw(z: Tensor) -> Tensor:  # (*B, K)
            drawn = size * mean + spread * z
            return basis_first(estimate, (products @ drawn.unsqueeze(-1)).squeeze(-1) / (1 + 2 * a), z)

        return sampled(self, estimate, mask, draw)
