"""Checks of tensors: dtype, device, shape and values."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def values_readable(tensor: Tensor) -> bool:
    """Return whether Python may read the values; not under ``torch.compile`` or ``torch.func``, nor on ``meta``."""
    if torch.compiler.is_compiling() or tensor.is_meta:
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def check_float_tensor(
    where: str, name: str, tensor: object, *, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> None:
    """Check that ``tensor`` is a floating point tensor, with the policy's ``dtype`` and on ``device`` if these are given."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{where}: {name} must be a floating point tensor, got {type(tensor).__name__}")
    if not tensor.is_floating_point():
        raise TypeError(f"{where}: {name} must be a floating point tensor, got dtype {tensor.dtype}")
    if dtype is not None and tensor.dtype != dtype:
        raise TypeError(
            f"{where}: {name} must have the policy's dtype {dtype}, got {tensor.dtype}; "
            f"use {name}.to({dtype}) or policy.to({tensor.dtype})"
        )
    if device is not None and tensor.device != device:
        raise ValueError(f"{where}: {name} must be on {device}, got {tensor.device}; use {name}.to({str(device)!r})")


def check_shape(where: str, name: str, shape: Sequence[int], ok: bool, expected: str) -> None:
    """Raise an error that names the ``expected`` shape unless ``ok``."""
    if not ok:
        raise ValueError(f"{where}: {name} must have shape {expected}, got {tuple(shape)}")


def check_same_shape(where: str, name: str, tensor: Tensor, like_name: str, like: Tensor) -> None:
    """Check that ``tensor`` has the shape of ``like``."""
    if tensor.shape != like.shape:
        expected = f"{tuple(like.shape)}, as {like_name} has"
        check_shape(where, name, tensor.shape, False, expected)


def check_arm_axis(where: str, name: str, tensor: Tensor) -> None:
    """Check that the last dimension holds at least one arm."""
    check_shape(where, name, tensor.shape, tensor.dim() >= 1 and tensor.shape[-1] >= 1, "(*B, K) with K >= 1")


def check_batch(where: str, name: str, tensor: Tensor, batch: torch.Size) -> None:
    """Check that ``tensor`` has shape ``()``, one value for all bandits, or the batch shape, one value per bandit."""
    check_shape(where, name, tensor.shape, tensor.shape in ((), batch), f"() or {tuple(batch)}")


def check_finite(where: str, name: str, tensor: Tensor) -> None:
    """Check that no value is NaN or infinite."""
    if not values_readable(tensor) or math.isfinite(tensor.detach().sum().item()):  # NaN and inf propagate to the sum
        return
    bad = ~tensor.isfinite()
    if bool(bad.any()):  # otherwise only the sum overflowed
        first = tuple(bad.nonzero()[0].tolist())
        raise ValueError(
            f"{where}: {name} must be finite, got {int(bad.sum())} NaN or infinite of {tensor.numel()} values, "
            f"the first at {first}; nothing was changed"
        )


def check_mask(where: str, mask: object, shape: Sequence[int], *, device: torch.device | None = None) -> None:
    """Check that ``mask`` is None or a bool tensor that allows at least one arm in every row.

    Args:
        where: function or class that error messages begin with.
        mask: what the caller passed; True marks an allowed arm.
        shape: ``(*B, K)``; a mask of shape ``(K,)`` applies to all rows.
        device: where the mask must be; None accepts any device.
    """
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = f"dtype {mask.dtype}" if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"{where}: mask must be a bool tensor, True = allowed, got {got}")
    expected = f"{tuple(shape)} or {tuple(shape[-1:])}"
    check_shape(where, "mask", mask.shape, tuple(mask.shape) in (tuple(shape), tuple(shape[-1:])), expected)
    if device is not None and mask.device != device:
        raise ValueError(f"{where}: mask must be on {device}, got {mask.device}; use mask.to({str(device)!r})")
    if values_readable(mask) and not bool(mask.any(-1).all()):
        rows = (~mask.any(-1)).nonzero()
        raise ValueError(
            f"{where}: mask must allow at least one arm in every row, got {len(rows)} rows with none, "
            f"the first at {tuple(rows[0].tolist())}; leave such rows out"
        )


def check_arm_ids(where: str, arm: object, batch: torch.Size, num_arms: int) -> None:
    """Check that ``arm`` holds one arm number in ``[0, num_arms)`` per bandit: int64, of shape ``batch``."""
    if not isinstance(arm, Tensor) or arm.dtype != torch.int64:
        got = f"dtype {arm.dtype}" if isinstance(arm, Tensor) else type(arm).__name__
        raise TypeError(f"{where}: arm must be an int64 tensor of arm numbers, got {got}")
    if arm.shape != batch:
        check_shape(where, "arm", arm.shape, False, str(tuple(batch)))
    if values_readable(arm) and arm.numel():
        low, high = (arm.item(),) * 2 if not arm.dim() else (int(v) for v in arm.aminmax())
        if low < 0 or high >= num_arms:
            raise ValueError(f"{where}: arm must be in [0, {num_arms}), got {low if low < 0 else high}")


def check_not_negative(where: str, name: str, tensor: Tensor) -> None:
    """Check that every value is finite and at least 0."""
    check_finite(where, name, tensor)
    if tensor.numel() and bool((tensor < 0).any()):
        raise ValueError(f"{where}: {name} must be at least 0, got {float(tensor.min())}")


def check_same_dtype(where: str, name: str, tensor: Tensor, other: str, dtype: torch.dtype) -> None:
    """Check that ``tensor`` has ``dtype``; ``other`` names its owner in the possessive, such as "the arms'"."""
    if tensor.dtype != dtype:
        raise TypeError(f"{where}: {name} must have {other} dtype {dtype}, got {tensor.dtype}; use {name}.to({dtype})")
