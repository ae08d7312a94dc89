"""LinPHE: exploration by pseudo-rewards that are drawn in each round."""

from functools import partial
from typing import Unpack

from torch import Tensor

from torch_softucb.checks import check_number
from torch_softucb.policies._checks import check_keywords
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.fixed_set import basis_first, gram
from torch_softucb.policies.reward_range import RangedArmPolicy, RangeKwargs
from torch_softucb.policies.sampled import sampled_decision


class LinPHE(RangedArmPolicy):
    """Policy that fits ridge regression to rewards and random pseudo-rewards, and plays its best arm.

    Each past reward comes with ``perturbation`` pseudo-rewards, each ``reward_low`` or ``reward_high`` by a fair coin flip.

    With ridge weight (1 + a) alpha, as in the original paper, theta = V^-1 (b + sum_k x_k U_k) / (1 + a), where U_k is the
    sum of arm k's a n_k pseudo-rewards. The binomial number of heads is approximated by a normal variable, rounded to a
    whole number within [0, a n_k] (total variation below 0.01), so a decision takes K random numbers whatever the length of
    the history. The first d rounds play d arms that span the features, as in the original paper.

    Args:
        dim: number of features d.
        num_arms: number of arms K.
        perturbation: a, number of pseudo-rewards per reward.
        reward_low: lower end of the reward range.
        reward_high: upper end of the reward range.
        **policy_kwargs: ``ridge_alpha``, ``refresh_every``, ``prior``, ``device``, ``dtype``, as in
            :class:`~torch_softucb.BanditPolicy`.

    B. Kveton, C. Szepesvari, M. Ghavamzadeh, C. Boutilier: Perturbed-history exploration in stochastic linear bandits, UAI
    2019.

    Example:
        >>> policy = LinPHE(2, num_arms=2)
        >>> for arm in (0, 1):
        ...     reward = torch.tensor(float(arm))
        ...     policy.update(torch.eye(2)[arm], reward, decision=policy(torch.eye(2)), arm=torch.tensor(arm))
        >>> policy(torch.eye(2)).draw(torch.tensor([-1.0, 1.0]))  # one coin low, one high
        tensor([0.0000, 0.5000])
    """

    own_settings = ("perturbation",)

    def __init__(self, dim: int, num_arms: int, *, perturbation: float = 1.0, **policy_kwargs: Unpack[RangeKwargs]) -> None:
        check_keywords("LinPHE", policy_kwargs, RangeKwargs.__annotations__)
        super().__init__(dim, num_arms, **policy_kwargs)
        self.perturbation = check_number("LinPHE", "perturbation", perturbation, low=0.0, open_low=True)

    @property
    def normals_per_decision(self) -> int:
        """Standard normal numbers per decision: one per arm."""
        return self.num_arms

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        """Draw the sum of each arm's pseudo-rewards, fit, and play the best arm."""
        count, _, _ = self._moments_of(estimate)
        coins = (self.perturbation * count).ceil()
        products = gram(estimate)
        low, span, a = estimate.centred(self.reward_low), self.reward_high - self.reward_low, self.perturbation
        draw = partial(_draw_index, estimate, products, coins, (low, span), 1 + a)
        return sampled_decision("LinPHE", estimate, mask, draw, num_normals=self.normals_per_decision)


def _draw_index(
    estimate: Estimate,
    products: Tensor,  # (*B, K, K)
    coins: Tensor,  # (*B, K) number of pseudo-rewards
    low_and_span: tuple[Tensor | float, float],
    factor: float,
    z: Tensor,  # (*B, K)
) -> Tensor:  # (*B, K)
    low, span = low_and_span
    heads = (coins / 2 + coins.sqrt() / 2 * z).round().clamp(min=0).minimum(coins)
    pseudo = coins * low + span * heads
    learned = (estimate.learned_mean + (products @ pseudo.unsqueeze(-1)).squeeze(-1)) / factor
    return basis_first(estimate, estimate.with_prior_mean(learned), z)
