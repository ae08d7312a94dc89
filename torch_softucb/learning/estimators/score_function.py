"""The score-function gradient of a whole trajectory's reward: exploration is credited with what came of it."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_choice
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.base import Signal, climb
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.simulation.trajectory import Trajectory

REPLICATES = 8  # trajectories of one problem
CONTROL_VARIATES = ("none", "leave_one_out", "state")


def play(
    policy: SoftUCBPolicy, episode: Episode, *, horizon: int, record: Sequence[str] = (), compile: bool | str = False
) -> Trajectory:
    """As many trajectories as the episode has, but several of each problem: (T, R, B / R).

    Where trajectories have betas of their own, and where the number does not divide, each keeps its problem: (T, B).
    """
    problem = episode.problem
    count = problem.batch_shape.numel()
    if policy.one_for_all and len(problem.batch_shape) == 1 and count % REPLICATES == 0:
        several = problem[: count // REPLICATES].repeat(REPLICATES)
        problem = replace(several, ids=problem.ids.reshape(several.batch_shape))  # other processes have others
    return episode.play(policy, horizon=horizon, problem=problem, record=record, scores=True, compile=compile)


def credit(
    trajectory: Trajectory,
    *,
    control_variate: str = "state",
    best_mean: Tensor | float = 0.0,  # (P,) what regret is measured from; matters without a baseline only
) -> Tensor:  # (T, R, P) or (T, P), as the trajectory
    """The reward to go that each draw is credited with.

    ``leave_one_out`` subtracts that of the other trajectories of the same problem. ``state`` also subtracts what the state
    before the draw foretells of it: a linear function of how the truly best arm stands, fitted round by round.
    """
    check_choice("trajectory", "control_variate", control_variate, CONTROL_VARIATES)
    to_go = F.reward_to_go(best_mean - trajectory.regret)
    if control_variate == "none":
        return to_go
    names = ("best_prob", "best_index", "best_width", "mean_width")
    known = [*(trajectory.scores[name] for name in names), trajectory.regret]
    if to_go.dim() == 2:  # one trajectory of each problem: the others' mean would bring it into its own centre by the fit
        state = torch.stack([*known, torch.ones_like(to_go)], dim=-1).unsqueeze(1)
        if control_variate == "state" and F.enough_to_fit(state):
            return to_go - F.linear_prediction(state, to_go.unsqueeze(1)).squeeze(1)
        return F.leave_one_out(to_go.unsqueeze(1)).squeeze(1)
    to_go = F.leave_one_out(to_go)
    state = torch.stack([F.leave_one_out(values) for values in known], dim=-1)
    return to_go - F.linear_prediction(state, to_go) if control_variate == "state" and F.enough_to_fit(state) else to_go


def slopes(
    trajectory: Trajectory, *, control_variate: str = "state", best_mean: Tensor | float = 0.0
) -> Tensor:  # (T, R, P)
    """What each round says about the whole trajectory's reward: over rounds, the sum of its means is dJ/dbeta."""
    scores = trajectory.scores
    return scores["present"] + scores["score"] * credit(trajectory, control_variate=control_variate, best_mean=best_mean)


def trajectory(
    policy: SoftUCBPolicy,
    episode: Episode,
    *,
    horizon: int,
    eta: object,
    record: Sequence[str],
    compile: bool | str = False,
) -> Signal:
    """Gradient over T of J, the reward of a whole trajectory, in all that says beta, and in delta; eta has no part in it."""
    played = play(policy, episode, horizon=horizon, record=record, compile=compile)
    credited, scores = credit(played), played.scores
    slope = scores["present"] + scores["score"] * credited
    loss = played.regret.mean() - climb(policy.beta_along(played.situation, played.regret.dim()), slope)
    if policy.raw_delta is not None:
        sharper = scores["delta_present"] + scores["delta_score"] * credited
        loss = loss - climb(policy.delta_logit, sharper)
    return Signal(loss, slope.mean(), torch.zeros_like(slope.mean()), played)
