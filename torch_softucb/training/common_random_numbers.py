"""Central differences of the regret, both sides with the same problems, noise and action draws."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.rollout import rollout
from torch_softucb.training.data import Episode
from torch_softucb.training.signals import Signal

STEP = 0.1  # half the distance of the two sides, as a share of the parameter


def difference(
    policy: SoftUCBPolicy, episode: Episode, values: Tensor, at: int, *, horizon: int, compile: bool | str
) -> Tensor:
    """Slope of the mean reward in ``values.view(-1)[at]``, by two rollouts."""
    flat = values.view(-1)
    here = flat[at].clone()
    step = STEP * here.abs() + 0.01
    ends = torch.stack((here - step, here + step))
    if values is policy.raw_beta.data:
        ends = ends.clamp(min=0)  # below 0 beta reads as 0
    means = []
    try:
        for end in ends:
            flat[at] = end
            noise, action = episode.generators(policy.device)
            played = rollout(
                policy, episode.problem, horizon=horizon, generator=action, noise_generator=noise, compile=compile
            )
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
    noise, action = episode.generators(policy.device)
    played = rollout(
        policy,
        episode.problem,
        horizon=horizon,
        generator=action,
        noise_generator=noise,
        record=record,
        record_every=max(1, horizon // 16),
        compile=compile,
    )
    loss = played.regret.mean()
    slope = torch.zeros_like(loss)
    for parameter in policy.parameters():
        with torch.no_grad():
            found = [
                difference(policy, episode, parameter.data, at, horizon=horizon, compile=compile)
                for at in range(parameter.numel())
            ]
        gradient = torch.stack(found).view(parameter.shape)
        slope = slope + gradient.sum()
        loss = loss - (gradient * (parameter - parameter.detach())).sum()
    return Signal(loss, slope, torch.zeros_like(slope), played)
