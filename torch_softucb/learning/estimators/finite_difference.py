"""Central differences of the regret, both sides with the same problems, noise and action draws."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_softucb.learning._checks import check_handful
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.base import Signal
from torch_softucb.policies import SoftUCBPolicy

MOST = 64  # numbers that are learned
STEP, LEAST = 0.1, 0.01  # half the distance of the two sides: a share of the parameter, and more where that can be 0


def difference(
    policy: SoftUCBPolicy, episode: Episode, parameter: Tensor, at: int, *, horizon: int, compile: bool | str
) -> Tensor:
    """Slope of the mean reward in ``parameter.view(-1)[at]``, by two rollouts."""
    policy.project_()  # else both sides of a beta far below 0 would read as 0
    flat = parameter.data.view(-1)
    here = flat[at].clone()
    step = STEP * here.abs() + LEAST
    if any(parameter is other for other in policy.positive_parameters) and bool(here > 0):
        step = STEP * here
    elif policy.beta_module is not None and any(parameter is other for other in policy.beta_module.log_parameters):
        step = torch.full_like(here, STEP)  # a share of the beta that it stands for
    ends, means = [], []
    try:
        for end in (here - step, here + step):
            flat[at] = end
            policy.project_()  # below 0 a beta reads as 0
            ends.append(flat[at].clone())
            played = episode.play(policy, horizon=horizon, compile=compile)
            means.append(-played.regret.mean())
    finally:
        flat[at] = here
    return (means[1] - means[0]) / (ends[1] - ends[0])


def common_random_numbers(
    policy: SoftUCBPolicy,
    episode: Episode,
    *,
    horizon: int,
    eta: object,
    record: Sequence[str],
    compile: bool | str = False,
) -> Signal:
    """Two rollouts for every number that is learned: for a handful of them. eta has no part in it."""
    check_handful("common_random_numbers", sum(parameter.numel() for parameter in policy.parameters()), MOST)
    played = episode.play(policy, horizon=horizon, record=record, compile=compile)
    loss = played.regret.mean()
    slope = torch.zeros_like(loss)
    for parameter in policy.parameters():
        with torch.no_grad():
            found = [
                difference(policy, episode, parameter, at, horizon=horizon, compile=compile)
                for at in range(parameter.numel())
            ]
        gradient = torch.stack(found).view(parameter.shape)
        slope = slope + gradient.sum()
        loss = loss - (gradient * (parameter - parameter.detach())).sum()
    return Signal(loss, slope, torch.zeros_like(slope), played)
