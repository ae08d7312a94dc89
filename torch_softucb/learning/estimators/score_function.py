"""The score-function gradient of a whole trajectory's reward: exploration is credited with the rewards it leads to."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_choice
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.base import Estimator, Played, Slopes
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.simulation.trajectory import Trajectory

REPLICATES = 8  # trajectories per problem
CONTROL_VARIATES = ("none", "leave_one_out", "state")


def play(
    policy: SoftUCBPolicy, episode: Episode, *, horizon: int, record: Sequence[str] = (), compile: bool | str = False
) -> Trajectory:
    """Play as many trajectories as the episode has, several per problem: ``(T, R, B / R)``.

    Each trajectory keeps its own problem, ``(T, B)``, when trajectories have separate betas or when their number is not a
    multiple of :data:`REPLICATES`.
    """
    problem = episode.problem
    count = problem.batch_shape.numel()
    if policy.one_for_all and len(problem.batch_shape) == 1 and count % REPLICATES == 0:
        several = problem[: count // REPLICATES].repeat(REPLICATES)
        # the ids of this process's share: with repeat's ids all processes would draw the same numbers
        problem = replace(several, ids=problem.ids.reshape(several.batch_shape))
    return episode.play(policy, horizon=horizon, problem=problem, record=record, scores=True, compile=compile)


def credit(
    trajectory: Trajectory,
    *,
    control_variate: str = "state",
    best_mean: Tensor | float = 0.0,  # (P,)
) -> Tensor:  # (T, R, P) or (T, P), as the trajectory
    """Return the reward-to-go credited to each drawn arm, minus a control variate.

    Args:
        trajectory: played with ``scores=True``.
        control_variate: ``leave_one_out`` subtracts the mean of the other trajectories of the same problem. ``state`` also
            subtracts a linear prediction from the state before the draw (probability, index and width of the best arm,
            mean width, regret), fitted round by round. ``none`` subtracts nothing.
        best_mean: the mean that regret is measured from; it matters only without a control variate.
    """
    check_choice("trajectory", "control_variate", control_variate, CONTROL_VARIATES)
    to_go = F.reward_to_go(best_mean - trajectory.regret)
    if control_variate == "none":
        return to_go
    names = ("best_prob", "best_index", "best_width", "mean_width")
    known = [*(trajectory.scores[name] for name in names), trajectory.regret]
    if to_go.dim() == 2:
        # one trajectory per problem: centring the state by the other problems would leak a trajectory into its own fit
        state = torch.stack([*known, torch.ones_like(to_go)], dim=-1).unsqueeze(1)
        if control_variate == "state" and F.enough_to_fit(state):
            return to_go - F.linear_prediction(state, to_go.unsqueeze(1)).squeeze(1)
        return F.leave_one_out(to_go.unsqueeze(1)).squeeze(1)
    to_go = F.leave_one_out(to_go)
    state = torch.stack([F.leave_one_out(values) for values in known], dim=-1)
    if control_variate == "state" and F.enough_to_fit(state):
        return to_go - F.linear_prediction(state, to_go)
    return to_go


def slopes(trajectory: Trajectory, *, control_variate: str = "state", best_mean: Tensor | float = 0.0) -> Tensor:
    """Contribution of each round to dJ/dbeta, ``(T, R, P)``: summed over rounds and averaged over trajectories, dJ/dbeta."""
    return _slope(trajectory, credit(trajectory, control_variate=control_variate, best_mean=best_mean))


def _slope(trajectory: Trajectory, credited: Tensor, prefix: str = "") -> Tensor:
    scores = trajectory.scores
    return scores[f"{prefix}present"] + scores[f"{prefix}score"] * credited


def _play(
    policy: SoftUCBPolicy, episode: Episode, *, horizon: int, eta: object, record: Sequence[str], compile: bool | str
) -> Played:
    """Estimate the gradient of J / T in beta and delta, where J is a trajectory's total reward; eta is not used."""
    trajectory = play(policy, episode, horizon=horizon, record=record, compile=compile)
    credited = credit(trajectory)
    of_beta = _slope(trajectory, credited)
    of_delta = None if policy.raw_delta is None else _slope(trajectory, credited, "delta_")
    mean = of_beta.mean()
    return Played(-trajectory.regret.mean(), Slopes(of_beta, of_delta), mean, torch.zeros_like(mean), trajectory)


trajectory = Estimator("trajectory", _play)
