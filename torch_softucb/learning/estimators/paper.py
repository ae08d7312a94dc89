"""The paper's estimator, Eq. 13: the gradient of every round as if the later rounds did not depend on it."""

from collections.abc import Sequence

import torch

from torch_softucb import functional as F
from torch_softucb.functional.objective import _offline_objective
from torch_softucb.learning.dual import Dual, mean_of_processes
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.base import Estimator, Played, Slopes
from torch_softucb.policies import SoftUCBPolicy


def _play(
    policy: SoftUCBPolicy, episode: Episode, *, horizon: int, eta: float | Dual, record: Sequence[str], compile: bool | str
) -> Played:
    """Compute Eq. 13 with eta, divided by T and averaged over trajectories (departures D3, D4).

    With a dual variable for eta the slope is normalised: it keeps the sign of Eq. 13 and has a size of at most 1. A beta
    module receives the contribution of every round through the beta that it returned for that round.
    """
    if policy.raw_delta is not None:
        raise ValueError(
            "paper: delta must be fixed, because Eq. 13 holds gamma constant, got learn_delta=True; "
            "use estimator='trajectory' or 'common_random_numbers'"
        )
    per_round = policy.beta_module is not None
    dual = isinstance(eta, Dual)
    trajectory = episode.play(
        policy, horizon=horizon, gradient=True, record=record, scores=per_round or dual, compile=compile
    )
    terms = trajectory.gradient
    assert terms is not None
    weight = eta.weigh(trajectory.scores["coverage"].mean()) if isinstance(eta, Dual) else eta
    size: float | torch.Tensor = 1.0
    if dual:
        parts = mean_of_processes(torch.stack((terms.reward.mean(), terms.penalty.mean())))
        size = F.lagrangian_size(parts[0], parts[1], torch.as_tensor(weight))
    reward, widths = terms.reward.unsqueeze(0), terms.penalty.unsqueeze(0)  # (1, *B)
    if per_round:
        reward, widths = trajectory.scores["reward_slope"], trajectory.scores["sum_width"]  # (T, *B)
    penalty = weight * widths
    beta = policy.beta_along(trajectory.situation, trajectory.regret.dim()).detach()
    objective = _offline_objective(terms.value.unsqueeze(0), beta, widths, weight)
    return Played(
        (objective.reward + objective.penalty).mean(),
        Slopes(beta=(reward + penalty) / size),  # Eq. 13 over T
        terms.reward.mean(),
        penalty.mean(),
        trajectory,
    )


paper = Estimator("paper", _play)
