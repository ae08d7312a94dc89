"""Replay evaluation: a policy that learns plays against a log, on the events that it would have chosen itself."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.functional._checks import check_log_columns
from torch_softucb.policies.base import BanditPolicy


class Replayed(NamedTuple):
    """Mean reward over the events that were kept."""

    value: float
    std_error: float
    kept: int  # events that the policy met; the rest says nothing about it


@torch.no_grad()
def replay(
    policy: BanditPolicy,
    features: Tensor,  # (n, K, d)
    arm: Tensor,  # (n,)
    reward: Tensor,  # (n,)
    propensity: Tensor,  # (n,)
    *,
    mask: Tensor | None = None,  # (n, K)
    generator: torch.Generator | None = None,
) -> Replayed:
    """Play one bandit through a log in its order; the policy sees, and learns from, an event only when it is kept.

    An event is kept with probability c p(arm) / propensity, p the policy's and c the smallest propensity of the log: then
    the kept ones are distributed as if the policy had chosen. Under uniform logging this is the replay of L. Li, W. Chu,
    J. Langford, X. Wang (WSDM 2011). The policy is changed: it has learned.

    Example:
        >>> from torch_softucb import LinUCB
        >>> features = torch.eye(2).expand(100, 2, 2)
        >>> arm = torch.arange(100) % 2
        >>> replay(LinUCB(2), features, arm, arm.float(), torch.full((100,), 0.5)).value > 0.9
        True
    """
    check_log_columns("replay", reward, arm, propensity, features.shape)
    if policy.normals_per_decision or policy.batch_shape:
        raise ValueError(
            f"replay: policy must be one bandit with probabilities in closed form, got {type(policy).__name__} with "
            f"batch_shape {tuple(policy.batch_shape)}"
        )
    accept = propensity.min() / propensity
    draws = torch.rand(len(arm), generator=generator, dtype=propensity.dtype)
    earned = []
    for t in range(len(arm)):
        decision = policy(features[t], mask=None if mask is None else mask[t])
        if draws[t] < accept[t] * decision.probs[arm[t]]:
            policy.update(features[t, arm[t]], reward[t], decision=decision)
            earned.append(float(reward[t]))
    count = len(earned)
    if not count:
        return Replayed(math.nan, math.nan, 0)
    kept = torch.tensor(earned, dtype=torch.float64)
    return Replayed(float(kept.mean()), float(kept.std(correction=min(1, count - 1)) / math.sqrt(count)), count)
