"""LinPHE: exploration by pseudo-rewards that are drawn anew in every round."""

import torch
from torch import Tensor

from torch_softucb.checks import check_number, check_span
from torch_softucb.policies._checks import check_arms_fit
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.fixed_set import ArmPolicy, basis_first, gram, sampled


class LinPHE(ArmPolicy):
    """Adds to every past reward ``perturbation`` pseudo-rewards, fair coins between ``reward_low`` and ``reward_high``, fits
    ridge regression to all of them and plays its best arm.

    With ridge weight (1 + a) alpha, as in the source, theta = V^-1 (b + sum_k x_k U_k) / (1 + a), where U_k is the sum of
    arm k's a n_k pseudo-rewards. The binomial number of coins is a normal one rounded to a whole number within [0, a n_k]
    (total variation below 0.01), so that a decision takes K random numbers whatever the length of the history.
    The first d rounds play d arms that span the features, as the source begins.

    Args:
        dim: number of features d.
        num_arms: K.
        perturbation: a, pseudo-rewards for each reward.
        reward_low: lower end of the rewards' range.
        reward_high: upper end.

    B. Kveton, C. Szepesvari, M. Ghavamzadeh, C. Boutilier: Perturbed-history exploration in stochastic linear bandits, UAI
    2019.

    Example:
        >>> policy = LinPHE(2, num_arms=2)
        >>> for arm in (0, 1):
        ...     paid = torch.tensor(float(arm))
        ...     policy.update(torch.eye(2)[arm], paid, decision=policy(torch.eye(2)), arm=torch.tensor(arm))
        >>> policy(torch.eye(2)).draw(torch.tensor([-1.0, 1.0]))  # one coin low, one high
        tensor([0.0000, 0.5000])
    """

    def __init__(
        self,
        dim: int,
        num_arms: int,
        *,
        perturbation: float = 1.0,
        reward_low: float = 0.0,
        reward_high: float = 1.0,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        kind = {"refresh_every": refresh_every, "device": device, "dtype": dtype}
        super().__init__(dim, num_arms, ridge_alpha=ridge_alpha, **kind)  # type: ignore[arg-type]
        self.perturbation = check_number("LinPHE", "perturbation", perturbation, low=0.0, open_low=True)
        self.reward_low, self.reward_high = check_span("LinPHE", reward_low, reward_high)
        self.normals_per_decision = num_arms

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        check_arms_fit("LinPHE", self.num_arms, estimate.mu_hat.shape[-1])
        count = self.moments(estimate.memory)[0].to(estimate.mu_hat.dtype)
        coins = (self.perturbation * count).ceil()
        mu_hat, products = estimate.mu_hat, gram(estimate)
        low, span, a = self.reward_low, self.reward_high - self.reward_low, self.perturbation

        def draw(z: Tensor) -> Tensor:  # (*B, K)
            heads = (coins / 2 + coins.sqrt() / 2 * z).round().clamp(min=0).minimum(coins)
            pseudo = coins * low + span * heads
            return basis_first(estimate, (mu_hat + (products @ pseudo.unsqueeze(-1)).squeeze(-1)) / (1 + a), z)

        return sampled(self, estimate, mask, draw)
