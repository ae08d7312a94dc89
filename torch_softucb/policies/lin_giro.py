"""LinGiro: a bootstrap of the history that explores through pseudo-rewards at both ends of the reward range."""

from functools import partial
from typing import Unpack

import torch
from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.policies._checks import check_keywords
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.fixed_set import basis_first, gram
from torch_softucb.policies.reward_range import RangedArmPolicy, RangeKwargs
from torch_softucb.policies.sampled import sampled_decision


class LinGiro(RangedArmPolicy):
    """Policy that fits ridge regression to a bootstrap of rewards and pseudo-rewards, and plays its best arm.

    Each reward comes with ``pseudo`` pseudo-rewards at the low end and as many at the high end. The list of each arm
    is resampled with replacement to its full length.

    With ridge weight (1 + 2 a) alpha, theta = V^-1 sum_k x_k R_k / (1 + 2 a), where R_k is the sum of arm k's draw. R_k is
    approximated as normal with the exact mean and variance of that sum, which depend only on the first two moments of the
    arm's rewards. A decision takes K random numbers whatever the length of the history. The first d rounds play d arms that
    span the features; the original paper, without features, plays each arm once.

    Args:
        dim: number of features d.
        num_arms: number of arms K.
        pseudo: a, number of pseudo-rewards at either end per reward.
        reward_low: lower end of the reward range.
        reward_high: upper end of the reward range.
        **policy_kwargs: ``ridge_alpha``, ``refresh_every``, ``prior``, ``device``, ``dtype``, as in
            :class:`~torch_softucb.BanditPolicy`.

    B. Kveton, C. Szepesvari, S. Vaswani, Z. Wen, M. Ghavamzadeh, T. Lattimore: Garbage in, reward out: bootstrapping
    exploration in multi-armed bandits, 2018 (ICML 2019); here over linear features.

    Example:
        >>> policy = LinGiro(2, num_arms=2)
        >>> for arm in (0, 1):
        ...     reward = torch.tensor(float(arm))
        ...     policy.update(torch.eye(2)[arm], reward, decision=policy(torch.eye(2)), arm=torch.tensor(arm))
        >>> policy(torch.eye(2)).draw(torch.zeros(2))  # half (V^-1) of the draws' means, (0 + 0 + 1) / 3 and (1 + 0 + 1) / 3
        tensor([0.1667, 0.3333])
    """

    own_settings = ("pseudo",)

    def __init__(self, dim: int, num_arms: int, *, pseudo: float = 1.0, **policy_kwargs: Unpack[RangeKwargs]) -> None:
        check_keywords("LinGiro", policy_kwargs, RangeKwargs.__annotations__)
        super().__init__(dim, num_arms, **policy_kwargs)
        self.pseudo = check_number("LinGiro", "pseudo", pseudo, low=0.0)

    @property
    def normals_per_decision(self) -> int:
        """Standard normal numbers per decision: one per arm."""
        return self.num_arms

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        """Draw the sum of each arm's bootstrap, fit, and play the best arm."""
        count, total, squares = self._moments_of(estimate)
        a, low, high = self.pseudo, estimate.centred(self.reward_low), estimate.centred(self.reward_high)
        size = (1 + 2 * a) * count  # length of an arm's list, and of its draw
        safe = size.clamp(min=1)
        mean = (total + a * count * (low + high)) / safe
        second = (squares + a * count * (low**2 + high**2)) / safe
        variance = size * (second - mean.square()).clamp(min=0)
        varies = variance > 0  # the gradient of a square root at 0 is infinite
        spread = torch.where(varies, variance, torch.ones_like(variance)).sqrt() * varies
        products = gram(estimate)
        draw = partial(_draw_index, estimate, products, size * mean, spread, 1 + 2 * a)
        return sampled_decision("LinGiro", estimate, mask, draw, num_normals=self.normals_per_decision)


def _draw_index(
    estimate: Estimate,
    products: Tensor,  # (*B, K, K)
    total: Tensor,  # (*B, K) expected sum of each arm's draw
    spread: Tensor,  # (*B, K)
    factor: float,
    z: Tensor,  # (*B, K)
) -> Tensor:  # (*B, K)
    learned = (products @ (total + spread * z).unsqueeze(-1)).squeeze(-1) / factor
    return basis_first(estimate, estimate.with_prior_mean(learned), z)
