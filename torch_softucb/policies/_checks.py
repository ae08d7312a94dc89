"""Checks of what policies are given."""

import math
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_ids, check_finite, check_float_tensor, check_integer, check_shape, values_readable
from torch_softucb.errors import NumericalError


def check_bandit(where: str, bandit: object, batch_shape: Sequence[int], *, device: torch.device) -> None:
    """Ids of rows of a flat batch of bandits: int64 ``(N,)``, each in ``[0, num_bandits)``."""
    if len(batch_shape) != 1:
        raise ValueError(
            f"{where}: bandit needs a policy with one batch dimension, got batch_shape {tuple(batch_shape)}; "
            "call policy.reset(batch_shape=(num_bandits,)) first"
        )
    if not isinstance(bandit, Tensor) or bandit.dtype != torch.int64:
        got = f"dtype {bandit.dtype}" if isinstance(bandit, Tensor) else type(bandit).__name__
        raise TypeError(f"{where}: bandit must be an int64 tensor of bandit ids, got {got}")
    check_shape(where, "bandit", bandit.shape, bandit.dim() == 1, "(N,)")
    if bandit.device != device:
        raise ValueError(f"{where}: bandit must be on {device}, got {bandit.device}; use bandit.to({str(device)!r})")
    if values_readable(bandit) and bandit.numel():
        low, high = (int(v) for v in bandit.aminmax())
        if low < 0 or high >= batch_shape[0]:
            row = int(((bandit < 0) | (bandit >= batch_shape[0])).nonzero()[0])
            raise ValueError(
                f"{where}: bandit ids must be in [0, {batch_shape[0]}), got {int(bandit[row])} in row {row}; "
                "nothing was changed"
            )


def check_beta_fits(where: str, shape: torch.Size, batch: torch.Size) -> None:
    if torch.compiler.is_compiling():  # a symbol for the batch equals no number; torch checks when it broadcasts
        return
    if shape not in ((), batch):
        raise ValueError(
            f"{where}: beta has shape {tuple(shape)}, which does not fit batch_shape {tuple(batch)}; "
            "reset the policy to beta's shape, or use one beta for all"
        )


def check_beta_is_number(where: str, raw: Tensor | None, module: object) -> Tensor:
    if raw is None:
        raise ValueError(
            f"{where}: beta must be a number, or one a bandit, got {type(module).__name__}, which says it decision by "
            "decision: look at decision.beta"
        )
    return raw


def check_beta_module(where: str, beta: object, kind: type) -> None:
    if isinstance(beta, type | torch.nn.Module) and not isinstance(beta, kind):
        name = f"the class {beta.__name__}" if isinstance(beta, type) else type(beta).__name__
        raise TypeError(f"{where}: beta_init must be a number, a tensor or a {kind.__name__} that was made, got {name}")


def check_segments(where: str, segments: Any) -> None:
    integer = isinstance(segments, Tensor) and not segments.is_floating_point() and segments.dtype != torch.bool
    if not integer or not segments.numel() or bool((segments < 0).any()):
        shown = f"{segments.dtype} {tuple(segments.shape)}" if isinstance(segments, Tensor) else type(segments).__name__
        raise ValueError(f"{where}: segments must be integers >= 0, one for every bandit, got {shown}; number them from 0")


def check_inputs(where: str, names: Sequence[str]) -> None:
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{where}: inputs must be at least one name, each of them once, got {tuple(names)!r}")


def check_carried_gamma(where: str, gamma: Tensor | None, bandits: torch.Size) -> Tensor:
    """What coldness="lagged" needs to go on: one gamma for every bandit that is updated."""
    if gamma is None:
        raise ValueError(
            f"{where}: coldness='lagged' carries gamma_t to the next round; pass decision=, the one that chose x"
        )
    if gamma.shape != bandits:
        raise ValueError(
            f"{where}: coldness='lagged' carries one gamma a bandit, got a decision for {tuple(gamma.shape)} where "
            f"{tuple(bandits)} bandits are updated; use 'current' or 'smooth' for several requests or repeated ids"
        )
    return gamma


def check_features(where: str, arms: Tensor, mu_hat: Tensor) -> None:
    """NaN or inf in a feature always reaches mu_hat (0 * inf is NaN), which is smaller: look there first."""
    if values_readable(mu_hat) and not math.isfinite(mu_hat.detach().sum().item()):
        check_finite(where, "arms", arms)


def check_arms(where: str, shape: torch.Size, rows: torch.Size, dim: int) -> None:
    """``(K, d)`` for all, or one set for every bandit or request."""
    fits = len(shape) >= 2 and shape[-1] == dim and shape[-2] >= 1 and (len(rows) == 0 or shape[:-2] in ((), rows))
    if not fits:
        expected = f"(K, {dim}) or ({', '.join(map(str, rows)) or '*requests'}, K, {dim})"
        check_shape(where, "arms", shape, False, expected)


def check_overflow(where: str, rows: Tensor) -> None:
    """Statistics that are about to be written: finite numbers may overflow when they are multiplied."""
    if values_readable(rows) and not math.isfinite(rows.sum().item()) and not bool(rows.isfinite().all()):
        raise NumericalError(f"{where}: x and reward are finite, but their products overflow float64; nothing was changed")


def check_observed(where: str, x: torch.Size, reward: torch.Size, rows: torch.Size, dim: int) -> None:
    """``x`` one or n observations for every bandit, ``reward`` the same without its last dim."""
    lead = x[:-1]
    if not (len(x) >= 1 and x[-1] == dim and (len(rows) == 0 or lead in (rows, (*rows, *lead[-1:])))):
        expected = f"({', '.join(map(str, rows)) or '*n'}, {dim}) or (*B, n, {dim})"
        check_shape(where, "x", x, False, expected)
    if reward != lead:
        check_shape(where, "reward", reward, False, f"{tuple(lead)}, that of x without its last dim")


def check_remembered(
    where: str, decision: object, arm: object, rows: torch.Size, *, lead: torch.Size, bandit: Tensor | None
) -> tuple[Any, Tensor]:
    """A policy that remembers arms learns from one decision a bandit, and must be told which arm was played."""
    if decision is None or arm is None:
        raise ValueError(f"{where}: decision and arm must be given: this policy remembers which arm it played")
    batch = decision.batch_shape  # type: ignore[attr-defined]
    repeated = bandit is not None and len(torch.unique(bandit)) < len(bandit)
    if lead != rows or batch != rows or repeated:
        raise ValueError(
            f"{where}: x must be one observation a bandit, from one decision, and ids must not repeat: this policy "
            f"remembers its arms; got rewards of shape {tuple(lead)} for a decision of shape {tuple(batch)}"
        )
    check_arm_ids(where, arm, rows, decision.num_arms)  # type: ignore[attr-defined]
    return decision, arm  # type: ignore[return-value]


def check_arms_fit(where: str, num_arms: int, given: int) -> None:
    if given != num_arms:
        raise ValueError(f"{where}: arms must be the {num_arms} arms that the policy was made for, got {given}")


def check_slate(where: str, k: object, mask: Tensor | None, num_arms: int) -> None:
    size = check_integer(where, "k", k, low=1)
    if mask is None:
        if size > num_arms:
            raise ValueError(f"{where}: k must be at most the number of arms, {num_arms}, got {size}")
        return
    allowed = mask.sum(-1)
    if values_readable(mask) and bool((allowed < size).any()):
        first = tuple((allowed < size).nonzero()[0].tolist())
        raise ValueError(
            f"{where}: k must be at most the number of allowed arms, {int(allowed[first])} in row {first}, got {size}"
        )


def check_policy(where: str, policy: object, kind: type) -> None:
    if not isinstance(policy, kind):
        raise TypeError(f"{where}: policy must be a {kind.__name__}, got {type(policy).__name__}")


def check_pending(where: str, pending: object, rows: torch.Size, dim: int) -> None:
    check_float_tensor(where, "pending", pending)
    shape, square = pending.shape, (dim, dim)  # type: ignore[attr-defined]
    check_shape(where, "pending", shape, shape in (square, (*rows, *square)), f"{square} or {(*rows, *square)}")
    check_finite(where, "pending", pending)  # type: ignore[arg-type]


def check_policy_file(path: object, text: Collection[str], tensors: Collection[str], *, needed: Collection[str]) -> None:
    missing = [name for name in (*needed, "beta", "statistics") if name not in (*text, *tensors)]
    if missing:
        raise ValueError(f"policy file {path}: is not one of a SoftUCBPolicy: {', '.join(missing)} is not in it")


def check_batch_shape(where: str, batch_shape: object) -> None:
    if not isinstance(batch_shape, (tuple, list)):
        raise TypeError(f"{where}: batch_shape must be a tuple of sizes, as (1024,) or (), got {batch_shape!r}")
    for size in batch_shape:
        check_integer(where, "batch_shape", size, low=1)


def check_offered(where: str, what: str, value: Tensor | None, policy: str) -> Tensor:
    """Something that only some policies have."""
    if value is None:
        raise TypeError(f"{where}: {what} is not there for {policy}: only SoftUCBPolicy has all of them")
    return value


def check_positive(where: str, name: str, tensor: Tensor) -> None:
    check_finite(where, name, tensor)
    if tensor.numel() and bool((tensor <= 0).any()):
        raise ValueError(f"{where}: {name} must be above 0, got {float(tensor.min())}")
