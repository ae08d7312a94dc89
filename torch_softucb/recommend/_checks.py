"""Checks of what heads are given."""

from typing import Any

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_ids, check_finite, check_float_tensor, check_integer, check_shape
from torch_softucb.learning.dual import OnlineDual


def check_head_policy(where: str, policy: Any, dim: int) -> None:
    if policy.remembers or policy.carries_gamma:
        kind = type(policy).__name__ + ("" if policy.remembers else " with coldness='lagged'")
        raise ValueError(
            f"{where}: feedback may come late and in any order, which {kind} cannot take; "
            "use SoftUCBPolicy ('current' or 'smooth'), LinUCB, LinTS, EpsilonGreedy or SoftElim"
        )
    if dim < 1:
        raise ValueError(f"{where}: policy must have dim 2 or more to hold an intercept and a feature, got {policy.dim}")
    if policy.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"{where}: policy must be float32 or float64, got {policy.dtype}: shorter propensities are not exact"
        )


def check_named(where: str, bandit: Tensor | None, bandits: torch.Size) -> None:
    if bandits and bandit is None:
        raise ValueError(
            f"{where}: bandit must be given, a tensor (N,) of ids: the policy keeps statistics of {bandits.numel()} bandits"
        )


def check_candidates(where: str, features: object, dim: int) -> None:
    """What an encoder gives: candidates' features."""
    if not isinstance(features, Tensor):
        raise TypeError(f"{where}: encoder must return a tensor (N, K, {dim}), got {type(features).__name__}")
    shape = features.shape
    ok = len(shape) in (2, 3) and shape[-1] == dim
    check_shape(where, "encoder output", shape, ok, f"(K, {dim}) or (N, K, {dim})")
    if not torch.compiler.is_compiling() and (shape[-2] < 1 or 0 in shape[:-2]):
        raise ValueError(f"{where}: every request needs at least one candidate, got an empty list, shape {tuple(shape)}")


def check_feedback(where: str, ids: object, reward: object, *, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
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
    if features is None:
        raise ValueError(f"{where}: decision must come from this head, got one without features; use head(...)")
    return features


def check_known_decision(where: str, decision: int, position: int, answered: bool) -> None:
    """Called for a decision that is not open."""
    if answered:
        raise ValueError(
            f"{where}: decision {decision} (position {position}) was answered or dropped before; nothing was changed; "
            "use on_repeat='ignore' to pass over such feedback"
        )
    raise ValueError(f"{where}: decision {decision} (position {position}) is unknown to this head; nothing was changed")


def check_same_map(where: str, mine: object, saved: object) -> None:
    if mine != saved:
        raise ValueError(f"{where}: the state is of a head with {saved}, got it for one with {mine}; make the head alike")


def check_replica(where: str, replica: int, bits: int) -> int:
    check_integer(where, "replica", replica, low=0)
    if replica >= 1 << bits:
        raise ValueError(f"{where}: replica must be below 2**{bits}, got {replica}")
    return replica


def check_nothing_open(where: str, count: int) -> None:
    if count:
        raise ValueError(
            f"{where}: {count} decisions wait for feedback with features of the old normalisation; answer them first, or "
            "head.drop(head.open_decisions)"
        )


def check_replayed(where: str, arm: object, reward: object, shape: torch.Size) -> None:
    """Batches of a replay buffer: one item a request."""
    check_shape(where, "encoder output", shape, len(shape) == 3, "(N, K, d)")
    check_arm_ids(where, arm, shape[:1], shape[1])
    check_float_tensor(where, "reward", reward)


def check_one_beta(where: str, raw: Tensor | None) -> None:
    if raw is None or raw.dim():
        got = "a module" if raw is None else f"{tuple(raw.shape)}"
        raise ValueError(f"{where}: policy must have one beta for all, got {got}; use beta_init as a number")


def check_dual(where: str, dual: OnlineDual | None) -> OnlineDual:
    """Return the dual variable, or raise if this learner has a fixed eta."""
    if dual is None:
        raise ValueError(f"{where}: only available with eta='auto'; this learner has a fixed eta")
    return dual


def check_log_place(where: str, folder: object, there: bool, beyond: bool) -> None:
    if not there:
        raise ValueError(f"{where}: {folder} holds no decision log")
    if beyond:
        raise ValueError(f"{where}: the checkpoint is ahead of the log in {folder}: they do not belong together")
