"""Input checks of policies. Each raises an error that names the caller, the argument and the fix."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_ids, check_finite, check_float_tensor, check_integer, check_shape, values_readable
from torch_softucb.errors import NumericalError
from torch_softucb.policies.prior import GaussianPrior

if TYPE_CHECKING:
    from torch_softucb.policies.decision import Decision


def check_bandit(where: str, bandit: Tensor, batch_shape: Sequence[int], *, device: torch.device) -> None:
    """Require ids of rows of a one-dimensional batch: int64 ``(N,)``, each in ``[0, num_bandits)``."""
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


def check_device(where: str, device: torch.device | str | None) -> torch.device:
    """Require a device that this machine has; None is torch's default device."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(f"{where}: device must be one that this machine has, such as 'cpu', got {device!r}") from error


def check_batch_shape(where: str, batch_shape: Sequence[int]) -> None:
    """Require a tuple or list of sizes >= 1."""
    if not isinstance(batch_shape, (tuple, list)):
        raise TypeError(f"{where}: batch_shape must be a tuple of sizes, such as (1024,) or (), got {batch_shape!r}")
    for size in batch_shape:
        check_integer(where, "batch_shape", size, low=1)


def check_prior(where: str, prior: object, dim: int, ridge_alpha: float) -> None:
    """Require a prior over the features of a policy, and no ridge weight next to it."""
    if not isinstance(prior, GaussianPrior):
        raise TypeError(f"{where}: prior must be a GaussianPrior or None, got {type(prior).__name__}")
    if prior.dim != dim:
        raise ValueError(f"{where}: prior must be over the policy's {dim} features, got one over {prior.dim}")
    if ridge_alpha != 1.0:
        raise ValueError(
            f"{where}: ridge_alpha must not be given together with prior, which has its own V_0, got {ridge_alpha}; "
            "use one of the two (GaussianPrior.ridge(dim, alpha) is the same as ridge_alpha)"
        )


def check_arms(where: str, shape: torch.Size, rows: torch.Size, dim: int) -> None:
    """Require arms of shape ``(K, d)``, or one such set per bandit or request."""
    fits = len(shape) >= 2 and shape[-1] == dim and shape[-2] >= 1 and (len(rows) == 0 or shape[:-2] in ((), rows))
    if not fits:
        expected = f"(K, {dim}) or ({', '.join(map(str, rows)) or '*requests'}, K, {dim})"
        check_shape(where, "arms", shape, False, expected)


def check_arms_fit(where: str, num_arms: int, given: int) -> None:
    """Require the number of arms that a policy over a fixed set was built with."""
    if given != num_arms:
        raise ValueError(f"{where}: expected the {num_arms} arms that the policy was made for, got {given}")


def check_pending(where: str, pending: Tensor, rows: torch.Size, dim: int) -> None:
    """Require a finite ``(d, d)`` matrix, or one per row."""
    check_float_tensor(where, "pending", pending)
    shape, square = pending.shape, (dim, dim)
    check_shape(where, "pending", shape, shape in (square, (*rows, *square)), f"{square} or {(*rows, *square)}")
    check_finite(where, "pending", pending)


def check_observed(where: str, x: torch.Size, reward: torch.Size, rows: torch.Size, dim: int) -> None:
    """Require one or n observations per bandit in ``x``, and the same shape without the last dim in ``reward``."""
    lead = x[:-1]
    if not (len(x) >= 1 and x[-1] == dim and (len(rows) == 0 or lead in (rows, (*rows, *lead[-1:])))):
        expected = f"({', '.join(map(str, rows)) or '*n'}, {dim}) or (*B, n, {dim})"
        check_shape(where, "x", x, False, expected)
    if reward != lead:
        check_shape(where, "reward", reward, False, f"{tuple(lead)}, that of x without its last dim")


def check_remembered(
    where: str,
    decision: "Decision | None",
    arm: Tensor | None,
    rows: torch.Size,
    *,
    reward: torch.Size,
    bandit: Tensor | None,
) -> "tuple[Decision, Tensor]":
    """Require the decision and the arm of one observation per bandit, for a policy that keeps statistics per arm."""
    if decision is None or arm is None:
        raise ValueError(
            f"{where}: decision and arm must be given, because this policy keeps statistics per arm; pass the decision "
            "that chose the arm, and the arm"
        )
    batch = decision.batch_shape
    repeated = bandit is not None and len(torch.unique(bandit)) < len(bandit)
    if reward != rows or batch != rows or repeated:
        raise ValueError(
            f"{where}: x must be one observation per bandit, from one decision, without repeated ids, because this policy "
            f"keeps statistics per arm; got rewards of shape {tuple(reward)} for a decision of shape {tuple(batch)}"
        )
    check_arm_ids(where, arm, rows, decision.num_arms)
    return decision, arm


def check_overflow(where: str, rows: Tensor) -> None:
    """Raise NumericalError if new statistics are not finite: products of finite numbers may overflow."""
    if values_readable(rows) and not math.isfinite(rows.sum().item()) and not bool(rows.isfinite().all()):
        raise NumericalError(f"{where}: x and reward are finite, but their products overflow float64; nothing was changed")


def check_statistics(where: str, mu_hat: Tensor) -> None:
    """Raise NumericalError if estimates of finite arms are not finite, which is then the fault of the statistics."""
    bad = int((~mu_hat.isfinite()).sum())
    if bad:
        raise NumericalError(
            f"{where}: the statistics (V, root or b) must be finite and fit the features, got {bad} NaN or infinite of "
            f"{mu_hat.numel()} estimated means; restore the policy from a checkpoint, or reset() it"
        )


def check_decision(where: str, beta: Tensor, gamma: Tensor, top: Tensor, peak: Tensor) -> None:
    """Raise NumericalError, naming the culprit, if the largest index or the coldness of a decision is NaN or infinite.

    Args:
        where: class of the policy.
        beta: confidence width, ``()`` or ``(*B,)``.
        gamma: coldness that the decision uses, ``(*B,)``.
        top: largest index of the allowed arms, ``(*B,)``; NaN or inf in beta, mean or width always reaches it.
        peak: ``gamma * top``, which the softmax needs anyway; finite only where both are.
    """
    if not values_readable(peak) or math.isfinite((peak.detach() if peak.requires_grad else peak).sum().item()):
        return
    if bool(top.isfinite().all()) and bool(gamma.isfinite().all()):
        return  # only the product or the sum overflowed
    raise decision_error(where, beta.detach().flatten().tolist(), bool(top.isfinite().all()))


def decision_error(where: str, beta: Sequence[float], index_is_finite: bool) -> NumericalError:
    """Return the error for a decision that is not finite, naming beta, the carried coldness or the estimates."""
    bad = [value for value in beta if not math.isfinite(value)]
    if bad:
        reason = f"beta must be finite, got {len(bad)} NaN or infinite of {len(beta)} values, the first {bad[0]}"
        return NumericalError(f"{where}: {reason}; set policy.beta, and lower the learning rate if it was learned")
    if index_is_finite:
        return NumericalError(
            f"{where}: the coldness gamma must be finite, got NaN or inf; beta is too small, or the gamma carried by "
            "coldness='lagged' is not a number"
        )
    return NumericalError(
        f"{where}: the index mu_hat + beta * width must be finite, got NaN or inf with a largest beta of {max(beta):g}; "
        "beta or the estimates are too large for the dtype, or the estimates are NaN"
    )


def check_keywords(where: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    """Require that all keyword arguments are among those that the class documents."""
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise TypeError(f"{where}: unexpected keyword argument {unknown[0]!r}; allowed are {', '.join(allowed)}")


def check_flag(where: str, name: str, value: object) -> bool:
    """Require True or False, and return it."""
    if not isinstance(value, bool):
        raise TypeError(f"{where}: {name} must be True or False, got {value!r}")
    return value


def check_beta_fits(where: str, shape: torch.Size, batch: torch.Size) -> None:
    """Require one beta for all bandits, or one per bandit."""
    if torch.compiler.is_compiling():  # a symbolic batch size equals no number; torch checks when it broadcasts
        return
    if shape not in ((), batch):
        raise ValueError(
            f"{where}: beta has shape {tuple(shape)}, which does not fit batch_shape {tuple(batch)}; "
            "reset the policy to the shape of beta, or use one beta for all bandits"
        )


def check_slate(where: str, k: int, mask: Tensor | None, num_arms: int) -> None:
    """Require 1 <= k <= number of allowed arms."""
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


def check_policy(where: str, policy: object, expected: type) -> None:
    """Require an instance of a policy class."""
    if not isinstance(policy, expected):
        raise TypeError(f"{where}: policy must be a {expected.__name__}, got {type(policy).__name__}")


def check_offered(where: str, what: str, value: Tensor | None, policy: str) -> Tensor:
    """Require a quantity that only some policies provide."""
    if value is None:
        raise TypeError(f"{where}: {what} is not available for {policy}; SoftUCBPolicy provides it")
    return value
