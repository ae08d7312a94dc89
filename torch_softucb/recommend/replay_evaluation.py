"""Evaluate a learning policy on a log, using the events in which it would have made the logged choice."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.functional._checks import check_log_columns
from torch_softucb.policies.base import BanditPolicy


class Replayed(NamedTuple):
    """Result of :func:`replay`: the mean reward over the events that were kept.

    Attributes:
        value: mean reward per event; NaN if no event was kept.
        std_error: standard error of ``value``.
        kept: number of events kept; the other events carry no information about the policy.
    """

    value: float
    std_error: float
    kept: int


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
    """Evaluate one bandit on a log, in the order of the log; it learns from the events that are kept.

    An event is kept with probability c p(arm) / propensity, where p is the policy's probability and c the smallest
    propensity of the log. The kept events are then distributed as if the policy had chosen. Under uniform logging this is
    the replay method of L. Li, W. Chu, J. Langford, X. Wang (WSDM 2011).

    This does not rebuild the statistics of a head; that is :meth:`SoftUCBHead.refit`, which takes batches of
    :class:`~torch_softucb.recommend.Replay`.

    Args:
        policy: policy with a single bandit and probabilities in closed form. It is changed, because it learns.
        features: features of all candidates of each event.
        arm: logged arm.
        reward: logged reward.
        propensity: probability with which the logging policy chose the arm, in (0, 1].
        mask: candidates that were allowed; by default all of them.
        generator: source of the numbers that decide which events are kept.

    Returns:
        Mean reward of the policy, its standard error and the number of events kept.

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
    rewards = []
    for t in range(len(arm)):
        decision = policy(features[t], mask=None if mask is None else mask[t])
        if draws[t] < accept[t] * decision.probs[arm[t]]:
            policy.update(features[t, arm[t]], reward[t], decision=decision)
            rewards.append(float(reward[t]))
    count = len(rewards)
    if not count:
        return Replayed(math.nan, math.nan, 0)
    kept = torch.tensor(rewards, dtype=torch.float64)
    return Replayed(float(kept.mean()), float(kept.std(correction=min(1, count - 1)) / math.sqrt(count)), count)
