"""Checks of the inputs of heads."""

import torch
from torch import Tensor

from torch_softucb.checks import check_finite, check_shape
from torch_softucb.errors import OpenDecisionsError
from torch_softucb.learning.dual import OnlineDual
from torch_softucb.policies.base import BanditPolicy


def check_head_policy(where: str, policy: BanditPolicy, dim: int) -> None:
    """Check that the policy accepts feedback late and in any order, and that its propensities are exact."""
    if policy.remembers or policy.carries_gamma:
        name = type(policy).__name__ + ("" if policy.remembers else " with coldness='lagged'")
        raise ValueError(
            f"{where}: policy must accept feedback that comes late and in any order, which {name} cannot take; "
            "use SoftUCBPolicy ('current' or 'smooth'), LinUCB, LinTS, EpsilonGreedy or SoftElim"
        )
    if dim < 1:
        raise ValueError(f"{where}: policy must have dim 2 or more for an intercept and a feature, got {policy.dim}")
    if policy.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"{where}: policy must be float32 or float64, as lower precision makes propensities inexact, got {policy.dtype}"
        )


def check_bandit_given(where: str, bandit: Tensor | None, batch_shape: torch.Size) -> None:
    """Check that the bandits are named where the policy has several."""
    if batch_shape and bandit is None:
        raise ValueError(
            f"{where}: bandit must be given, a tensor (N,) of ids, because the policy has statistics of "
            f"{batch_shape.numel()} bandits"
        )


def check_candidates(where: str, features: object, dim: int) -> None:
    """Check the encoder's output, the features of the candidates."""
    if not isinstance(features, Tensor):
        raise TypeError(f"{where}: encoder must return a tensor (N, K, {dim}), got {type(features).__name__}")
    shape = features.shape
    ok = len(shape) in (2, 3) and shape[-1] == dim
    check_shape(where, "encoder output", shape, ok, f"(K, {dim}) or (N, K, {dim})")
    if not torch.compiler.is_compiling() and (shape[-2] < 1 or 0 in shape[:-2]):
        raise ValueError(f"{where}: every request needs at least one candidate, got an empty list, shape {tuple(shape)}")


def check_feedback(where: str, ids: object, reward: object, *, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Check decision ids and their rewards; returns both flat, the rewards in ``dtype``."""
    if not isinstance(ids, Tensor) or ids.dtype != torch.int64:
        got = f"dtype {ids.dtype}" if isinstance(ids, Tensor) else type(ids).__name__
        raise TypeError(f"{where}: id must be an int64 tensor of decision ids, got {got}")
    if not isinstance(reward, Tensor) or not reward.is_floating_point():
        got = f"dtype {reward.dtype}" if isinstance(reward, Tensor) else type(reward).__name__
        raise TypeError(f"{where}: reward must be a floating point tensor, got {got}")
    check_shape(where, "reward", reward.shape, reward.shape == ids.shape, f"{tuple(ids.shape)}, that of id")
    check_finite(where, "reward", reward)
    return ids.reshape(-1), reward.reshape(-1).to(dtype)


def check_carries_features(where: str, features: Tensor | None) -> Tensor:
    """Check that a decision comes from a head."""
    if features is None:
        raise ValueError(f"{where}: decision must come from this head, got one without features; use head(...)")
    return features


def check_known_decision(where: str, decision: int, position: int, answered: bool) -> None:
    """Raise for a decision that is not open."""
    if answered:
        raise ValueError(
            f"{where}: decision {decision} (position {position}) was answered or dropped before; nothing was changed; "
            "use on_repeat='ignore' to skip such feedback"
        )
    raise ValueError(f"{where}: decision {decision} (position {position}) is unknown to this head; nothing was changed")


def check_nothing_open(where: str, count: int) -> None:
    """Check that no open decision was served with features of the normalisation that is about to change."""
    if count:
        raise ValueError(
            f"{where}: {count} decisions wait for feedback with features of the old normalisation; answer them first, or "
            "head.drop(head.open_decisions)"
        )


def check_room(where: str, count: int, more: int, limit: int) -> None:
    """Check that more decisions may be opened."""
    if count + more > limit:
        raise OpenDecisionsError(
            f"{where}: at most {limit} decisions may wait for feedback, {count} do and {more} would be added; nothing was "
            "changed; drop those whose reward no longer matters, as in head.drop(head.open_decisions[:1000]), or construct "
            "the head with a larger max_open"
        )


def check_different(where: str, ids: Tensor) -> None:  # (n,)
    """Check that no decision is named twice."""
    if len(set(ids.tolist())) != len(ids):
        raise ValueError(f"{where}: id must hold different decisions, got one of them twice; nothing was changed")


def check_one_beta(where: str, raw: Tensor | None) -> None:
    """Check that a policy has a single learnable number as its beta."""
    if raw is None or raw.dim():
        got = "a module" if raw is None else f"{tuple(raw.shape)}"
        raise ValueError(f"{where}: policy must have one beta for all, got {got}; use beta_init as a number")


def check_dual(where: str, dual: OnlineDual | None) -> OnlineDual:
    """Return the dual variable, or raise if this learner has a fixed eta."""
    if dual is None:
        raise ValueError(f"{where}: only available with eta='auto'; this learner has a fixed eta")
    return dual
