"""What a rollout returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

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
