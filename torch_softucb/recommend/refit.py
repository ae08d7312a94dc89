"""Rebuild the statistics of a policy from past requests, after the encoder has changed."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_ids, check_float_tensor, check_shape
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.recommend._checks import check_bandit_given


class Replay(NamedTuple):
    """A batch of past requests from which :meth:`SoftUCBHead.refit` rebuilds the statistics.

    Not to be confused with :func:`~torch_softucb.recommend.replay`, which evaluates a policy on a log, and with its result
    :class:`~torch_softucb.recommend.Replayed`.

    Attributes:
        inputs: positional arguments of the encoder.
        arm: int64 (N,), position of the item that was shown in the candidate list of its request.
        reward: (N,) reward of that item.
        bandit: int64 (N,), ids of the bandits; None if there is only one.
    """

    inputs: tuple[Any, ...]
    arm: Tensor  # (N,)
    reward: Tensor  # (N,)
    bandit: Tensor | None = None  # (N,)


def rebuild_statistics(
    policy: BanditPolicy,
    encode: Callable[..., Tensor],
    batches: Iterable[Replay],
    *,
    discount: float,
) -> int:
    """Compute the statistics that past requests lead to and give them to the policy; on an error it is unchanged.

    The caller holds the lock: rewards that arrive in the meantime are added to the new statistics afterwards.

    Args:
        policy: policy to rebuild.
        encode: function from the inputs of a batch to the features of its candidates, (N, K, d).
        batches: past requests, the oldest first.
        discount: share of a bandit's statistics that is kept at each batch that contains the bandit.

    Returns:
        The number of rewards used.
    """
    where, count = "SoftUCBHead.refit", 0
    statistics = policy.fresh_rows(tuple(policy.batch_shape))
    for batch in batches:
        check_bandit_given(where, batch.bandit, policy.batch_shape)
        features = encode(*batch.inputs)
        _check_batch(where, batch, features.shape)
        x = features[torch.arange(len(batch.arm), device=batch.arm.device), batch.arm]
        change = policy.updated(statistics, x, batch.reward.to(x.dtype), bandit=batch.bandit, discount=discount)
        statistics = change.new if change.rows is None else statistics.index_copy_(0, change.rows, change.new)
        count += len(batch.arm)
    if not count:
        raise ValueError(f"{where}: at least one batch is needed, got none (an iterator that is used up?)")
    policy.write(None, statistics)
    return count


def _check_batch(where: str, batch: Replay, shape: torch.Size) -> None:
    check_shape(where, "encoder output", shape, len(shape) == 3, "(N, K, d)")
    check_arm_ids(where, batch.arm, shape[:1], shape[1])
    check_float_tensor(where, "reward", batch.reward)
