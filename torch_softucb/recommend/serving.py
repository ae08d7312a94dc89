"""Draw the items to show, each with the exact probability of being shown."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.functional.sampling import _draw_arm
from torch_softucb.policies.decision import Decision
from torch_softucb.rng import normals, uniforms


class Served(NamedTuple):
    """The items that were shown, with everything that their feedback and their log entry need.

    ``*N`` is (N,) for single items, (N, k) for slates, and () or (k,) for a single request without a batch dimension.

    Attributes:
        id: int64 (*N,), one id per item shown.
        arm: int64 (*N,), position of the item in the candidate list.
        propensity: (*N,) probability of the item; in a slate, given the items before it. None if the policy has no
            probabilities in closed form (LinTS).
        x: (*N, d) features of the item.
        beta: () or (N,) confidence width behind the decision; None if the policy has none.
        bandit: (N,) ids of the bandits whose statistics were used; None if there is only one.
        mask: (K,) or (N, K) candidates that were allowed; None if all were.
        k: number of items per slate; None for single items.
        num_arms: number of candidates K.
    """

    id: Tensor  # (*N,) int64
    arm: Tensor  # (*N,) int64
    propensity: Tensor | None  # (*N,)
    x: Tensor  # (*N, d)
    beta: Tensor | None  # () or (N,)
    bandit: Tensor | None  # (N,)
    mask: Tensor | None  # (K,) or (N, K)
    k: int | None
    num_arms: int


def draw_items(
    decision: Decision,
    key: Tensor,  # () int64
    ids: Tensor,  # (*B,) int64
    *,
    k: int | None,
    num_normals: int,
) -> tuple[Tensor, Tensor | None]:
    """Draw one item, or a slate of ``k`` items, per request.

    The random numbers depend on the key and on the id only. Uniform numbers are float64 whatever the policy's dtype: the
    smallest positive float32 draw is 6e-8, so rarer items could not be drawn with their stated probability.

    Args:
        decision: the policy's decision for these requests.
        key: key of the random stream.
        ids: id of each request; for a slate, the id of its first item.
        k: number of items per slate; None for single items.
        num_normals: standard normal numbers that the policy draws with, per decision; 0 if it draws from probabilities.

    Returns:
        The arms, (*B,) or (*B, k), and their probabilities of the same shape, None where there is no closed form.
    """
    if num_normals:
        noise = normals(key, ids, start=0, count=num_normals, dtype=decision.index.dtype).movedim(0, -1)
        return (decision.pick(noise) if k is None else decision.pick_topk(k, noise).arm), None
    if k is None:
        probs = decision.probs
        arm = _draw_arm(probs.double(), uniforms(key, ids, start=0, count=1, dtype=torch.float64)[0])
        return arm, probs.gather(-1, arm.unsqueeze(-1)).squeeze(-1)
    slate = decision.pick_topk(k, uniforms(key, ids, start=0, count=decision.num_arms, dtype=torch.float64).movedim(0, -1))
    assert slate.log_prob is not None
    return slate.arm, slate.log_prob.exp()


def shown_features(
    features: Tensor,  # (K, d) or (*B, K, d)
    arm: Tensor,  # (*B,) or (*B, k)
    batch_shape: torch.Size,
) -> Tensor:  # (*B, d) or (*B, k, d)
    """Return the features of the items that were drawn."""
    features = features.expand(*batch_shape, *features.shape[-2:])
    single = arm.shape == batch_shape
    at = arm.unsqueeze(-1) if single else arm
    x = features.gather(-2, at.unsqueeze(-1).expand(*at.shape, features.shape[-1]))
    return x.squeeze(-2) if single else x
