"""What a simulation yields round by round, and what a rollout returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from torch_softucb.policies.decision import Decision

# Per-round quantities for the gradient of a whole trajectory, in the order of the kernel's planes. Derivatives are those of
# functional/score_function.py; "best" is the arm with the largest true mean.
SCORES = (
    "present",  # d (expected reward of the round) / d beta
    "score",  # d log p(arm) / d beta
    "best_prob",  # probability of the best arm; this and the next three are inputs of the control variate
    "best_index",  # S of the best arm
    "best_width",  # width of the best arm
    "mean_width",  # mean width under the policy
    "coverage",  # fraction of arms whose true mean is within beta * width of mu_hat, Eq. 3
    "delta_present",  # "present" for the logit of delta
    "delta_score",  # "score" for the logit of delta
    "reward_slope",  # reward part of Eq. 13, one round
    "sum_width",  # penalty part of Eq. 13 at eta = 1, one round
)


class GradientTerms(NamedTuple):
    """The terms of Eq. 13 per trajectory.

    A :class:`Trajectory` holds their means over the T rounds (departure D4), a :class:`Round` their sums over its rounds.

    Attributes:
        reward: reward part, ``(*B,)``.
        penalty: penalty part at eta = 1, the sum of all widths, ``(*B,)``.
        value: the estimated reward whose gradient is ``reward``, sum_i p_i mu_hat_i, ``(*B,)``.
    """

    reward: Tensor  # (*B,)
    penalty: Tensor  # (*B,)
    value: Tensor  # (*B,)


class FoundScales(NamedTuple):
    """Scales that :class:`~torch_softucb.AutoSoftUCB` had found by the end of a rollout; NaN where the noise is not known.

    Attributes:
        offset: offset of the rewards, ``(*B,)``.
        noise_std: standard deviation of the noise, ``(*B,)``.
        prior_std: standard deviation of each component of theta, ``(*B,)``.
    """

    offset: Tensor  # (*B,)
    noise_std: Tensor  # (*B,)
    prior_std: Tensor  # (*B,)


class Round(NamedTuple):
    """One round of every trajectory, or a block of consecutive rounds that are not recorded.

    Attributes:
        t: number of the first round, counted from 0.
        regret: expected regret of each of the n rounds (Eq. 2), ``(n, *B)``.
        gradient: terms of Eq. 13 summed over the n rounds; None unless requested.
        decision: the decision of a recorded round (n = 1), else None.
        arm: arms played, ``(*B,)``; None for a block of the native backend.
        reward: rewards received, ``(*B,)``; likewise.
        scores: the quantities named in ``SCORES``, ``(11, n, *B)``; None unless requested.
        situation: inputs of a BetaModule, ``(n, *B, F)`` or ``(n, F)``; given together with ``scores``.
    """

    t: int
    regret: Tensor  # (n, *B)
    gradient: GradientTerms | None
    decision: Decision | None = None
    arm: Tensor | None = None  # (*B,)
    reward: Tensor | None = None  # (*B,)
    scores: Tensor | None = None  # (11, n, *B)
    situation: Tensor | None = None  # (n, *B, F) or (n, F)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The result of a rollout.

    Attributes:
        regret: expected regret of each round, ``(T, *B)``.
        gradient: terms of Eq. 13, averaged over rounds; None unless ``gradient=True``.
        records: one tensor per name in ``record``, ``(R, *B)`` or ``(R, *B, K)`` for R recorded rounds.
        scores: one tensor per name in ``SCORES``, ``(T, *B)``; empty unless ``scores=True``.
        situation: inputs of a BetaModule in each round, ``(T, *B, F)`` or ``(T, F)``; given with ``scores=True``.
        scales: what a policy that estimates its scales had found in the end; None for other policies.

    Example:
        >>> Trajectory(torch.tensor([[0.5], [0.25]])).cumulative_regret.squeeze(-1)
        tensor([0.5000, 0.7500])
    """

    regret: Tensor  # (T, *B)
    gradient: GradientTerms | None = None
    records: Mapping[str, Tensor] = field(default_factory=dict)
    scores: Mapping[str, Tensor] = field(default_factory=dict)
    situation: Tensor | None = None  # (T, *B, F) or (T, F)
    scales: FoundScales | None = None

    @property
    def cumulative_regret(self) -> Tensor:  # (T, *B)
        """Regret summed up to and including each round."""
        return self.regret.cumsum(0)
