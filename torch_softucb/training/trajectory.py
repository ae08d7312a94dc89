"""The score-function gradient of a whole trajectory's reward: exploration is credited with what came of it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_choice, check_one_beta
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.training.data import Episode
from torch_softucb.training.signals import Signal
from torch_softucb.types import Trajectory

REPLICATES = 8  # trajectories of one problem
BASELINES = ("none", "leave_one_out", "state")


def play(
    policy: SoftUCBPolicy, episode: Episode, *, horizon: int, record: Sequence[str] = (), compile: bool | str = False
) -> Trajectory:
    """As many trajectories as the episode has, but several of each problem: (T, R, B / R)."""
    problem = episode.problem
    count = problem.batch_shape.numel()
    replicates = REPLICATES if count % REPLICATES == 0 else 1
    several = problem[: count // replicates].repeat(replicates)
    return episode.play(policy, horizon=horizon, problem=several, record=record, scores=True, compile=compile)


def slopes(
    trajectory: Trajectory,
    *,
    baseline: str = "state",
    best_mean: Tensor | float = 0.0,  # (P,) what regret is measured from; matters without a baseline only
) -> Tensor:  # (T, R, P)
    """What each round says about the whole trajectory's reward: its mean over trajectories, summed over rounds, is dJ/dbeta.

    ``leave_one_out`` subtracts from the reward to go that of the other trajectories of the same problem. ``state`` also
    subtracts what the state before the draw foretells of it: a linear function of how the truly best arm stands, fitted
    round by round on the other half of the problems, so that no trajectory helps to centre its own.
    """
    check_choice("trajectory", "baseline", baseline, BASELINES)
    scores = trajectory.scores
    to_go = F.reward_to_go(best_mean - trajectory.regret)
    if baseline != "none":
        to_go = _others_left_out(to_go)
    if baseline == "state" and to_go.shape[-1] > 1:
        known = [scores[name] for name in ("best_prob", "best_index", "best_width", "mean_width")]
        state = torch.stack([_others_left_out(values) for values in (*known, trajectory.regret)], dim=-1)
        half = torch.arange(to_go.shape[-1], device=to_go.device) % 2 == 0
        foretold = torch.empty_like(to_go)
        for own in (half, ~half):
            foretold[..., own] = _fitted(state[..., ~own, :], to_go[..., ~own], state[..., own, :])
        to_go = to_go - foretold
    return scores["present"] + scores["score"] * to_go


def _others_left_out(values: Tensor) -> Tensor:  # (T, R, P): minus the mean over the other replicates (R = 1: problems)
    axis = 1 if values.shape[1] > 1 else 2
    count = values.shape[axis]
    return values if count == 1 else (values - values.mean(axis, keepdim=True)) * (count / (count - 1))


def _fitted(state: Tensor, target: Tensor, at: Tensor) -> Tensor:  # (T, R, p, F), (T, R, p), (T, R, q, F) -> (T, R, q)
    """Least squares of every round; a trace of ridge, as early rounds tell nothing apart."""
    x, y = state.flatten(1, 2).double(), target.flatten(1).double()
    gram = x.mT @ x
    size = gram.diagonal(dim1=-2, dim2=-1)
    ridge = torch.diag_embed(1e-3 * size + 1e-9 * size.amax(-1, keepdim=True) + 1e-30)
    weights: Tensor = torch.linalg.solve(gram + ridge, x.mT @ y.unsqueeze(-1))  # (T, F, 1)
    return (at.flatten(1, 2).double() @ weights).squeeze(-1).view(at.shape[:-1]).to(target.dtype)


def trajectory(
    policy: SoftUCBPolicy,
    episode: Episode,
    *,
    horizon: int,
    eta: object,
    record: Sequence[str],
    compile: bool | str = False,
) -> Signal:
    """dJ/dbeta over T, J the reward of a whole trajectory; eta has no part in it."""
    check_one_beta("trajectory", policy.raw_beta.shape)
    played = play(policy, episode, horizon=horizon, record=record, compile=compile)
    slope = slopes(played).sum(0).mean() / horizon
    beta = policy.beta
    value = -played.regret.mean()
    zero = torch.zeros_like(slope)
    return Signal(-(value + slope * (beta - beta.detach())), slope, zero, played)
