"""Central differences of the regret; both sides use the same problems, noise and action draws."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.base import Estimator, Played, Slopes
from torch_softucb.policies import SoftUCBPolicy

MAX_PARAMETERS = 64  # each learned number costs two rollouts
STEP, MIN_STEP = (
    0.1,
    0.01,
)  # half the distance between the two sides: a fraction of the parameter, plus MIN_STEP where it can be 0


def difference(
    policy: SoftUCBPolicy, episode: Episode, parameter: Tensor, at: int, *, horizon: int, compile: bool | str
) -> Tensor:
    """Estimate the derivative of the mean reward in ``parameter.view(-1)[at]`` from two rollouts."""
    policy.project_()  # a beta far below 0 would read as 0 on both sides
    flat = parameter.data.view(-1)
    here = flat[at].clone()
    step = STEP * here.abs() + MIN_STEP
    if any(parameter is other for other in policy.positive_parameters) and bool(here > 0):
        step = STEP * here
    elif policy.beta_module is not None and any(parameter is other for other in policy.beta_module.log_parameters):
        step = torch.full_like(here, STEP)  # a fraction of the beta whose logarithm this is
    ends, means = [], []
    try:
        for end in (here - step, here + step):
            flat[at] = end
            policy.project_()  # a negative beta reads as 0
            ends.append(flat[at].clone())
            trajectory = episode.play(policy, horizon=horizon, compile=compile)
            means.append(-trajectory.regret.mean())
    finally:
        flat[at] = here
    return (means[1] - means[0]) / (ends[1] - ends[0])


def _play(
    policy: SoftUCBPolicy, episode: Episode, *, horizon: int, eta: object, record: Sequence[str], compile: bool | str
) -> Played:
    """Estimate each derivative from two rollouts, for policies with few learned numbers; eta is not used."""
    count = sum(parameter.numel() for parameter in policy.parameters())
    if count > MAX_PARAMETERS:
        raise ValueError(
            f"common_random_numbers: at most {MAX_PARAMETERS} numbers can be learned by two rollouts each, got {count}; "
            "use estimator='trajectory'"
        )
    trajectory = episode.play(policy, horizon=horizon, record=record, compile=compile)
    slope = torch.zeros_like(trajectory.regret.mean())
    gradients = []
    for parameter in policy.parameters():
        derivatives = [
            difference(policy, episode, parameter, at, horizon=horizon, compile=compile) for at in range(parameter.numel())
        ]
        gradients.append(torch.stack(derivatives).view(parameter.shape))
        slope = slope + gradients[-1].sum()
    return Played(-trajectory.regret.mean(), Slopes(parameters=tuple(gradients)), slope, torch.zeros_like(slope), trajectory)


common_random_numbers = Estimator("common_random_numbers", _play)
