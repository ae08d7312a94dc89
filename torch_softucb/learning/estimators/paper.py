"""How a batch of trajectories becomes a gradient of the policy's parameters: one interface, chosen by name.

An estimator takes a policy and an episode, plays, and returns a :class:`Signal` whose ``loss`` carries the gradient by
autograd; the optimiser and Lightning see nothing else.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.learning._checks import check_delta_fixed
from torch_softucb.learning.dual import Dual, mean_of_processes
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.base import Signal, climb
from torch_softucb.learning.estimators.finite_difference import common_random_numbers
from torch_softucb.learning.estimators.score_function import trajectory as whole_trajectory
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.simulation.trajectory import Trajectory


def paper(
    policy: SoftUCBPolicy,
    episode: Episode,
    *,
    horizon: int,
    eta: float | Dual,
    record: Sequence[str],
    compile: bool | str = False,
) -> Signal:
    """Eq. 13 with eta, divided by T and averaged over trajectories (departures D3, D4).

    With a dual variable for eta the slope is normalised: its sign is Eq. 13's, its size at most 1. A module's beta gets
    every round's part of Eq. 13 along what it says of that round.
    """
    check_delta_fixed("paper", policy.raw_delta)
    by_round = isinstance(eta, Dual) or policy.beta_module is not None
    trajectory = episode.play(policy, horizon=horizon, gradient=True, record=record, scores=by_round, compile=compile)
    terms = trajectory.gradient
    assert terms is not None
    now = eta.weigh(trajectory.scores["coverage"].mean()) if isinstance(eta, Dual) else eta
    parts = mean_of_processes(torch.stack((terms.reward.mean(), terms.penalty.mean()))) if isinstance(eta, Dual) else None
    size = 1.0 if parts is None else F.lagrangian_size(parts[0], parts[1], torch.as_tensor(now))
    reward, penalty = terms.reward.unsqueeze(0), now * terms.penalty.unsqueeze(0)  # (1, *B)
    if policy.beta_module is not None:
        reward, penalty = trajectory.scores["reward_slope"], now * trajectory.scores["sum_width"]  # (T, *B)
    beta = policy.beta_along(trajectory.situation, trajectory.regret.dim())
    value = (terms.value + (penalty * beta.detach()).mean(0)).mean()
    loss = -(value + climb(beta, (reward + penalty) / size))  # its gradient is g_hat
    return Signal(loss, terms.reward.mean(), penalty.mean(), trajectory)


ESTIMATORS: dict[str, Callable[..., Signal]] = {
    "paper": paper,
    "trajectory": whole_trajectory,
    "common_random_numbers": common_random_numbers,
}


def mean_record(trajectory: Trajectory, name: str) -> Tensor:
    return trajectory.records[name].to(torch.get_default_dtype()).mean()
