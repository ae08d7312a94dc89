"""Constraints on learned parameters whose gradient can leave the boundary again (departure D9)."""

from typing import Any

import torch
from torch import Tensor


class _NonNegative(torch.autograd.Function):
    """max(raw, 0) forward, :func:`nonnegative_gradient` backward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(raw: Tensor) -> Tensor:
        return raw.clamp(min=0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return nonnegative_gradient(ctx.saved_tensors[0], grad)


def nonnegative(raw: Tensor) -> Tensor:
    """Return max(raw, 0) with a gradient that can leave 0 again (departure D9).

    Where raw > 0 the gradient is the identity, so an SGD step is the paper's. Where raw <= 0 a gradient that would lower raw
    further is dropped and one that would raise it passes. So beta never falls below 0 and can leave 0, with any optimiser.

    Args:
        raw: unconstrained parameter, of any shape.

    Example:
        >>> raw = torch.tensor([0.5, -0.1, -0.1], requires_grad=True)
        >>> nonnegative(raw).backward(torch.tensor([3.0, 3.0, -3.0]))
        >>> raw.grad
        tensor([ 3.,  0., -3.])
    """
    if not (torch.is_grad_enabled() and raw.requires_grad):
        return raw.clamp(min=0)
    value: Tensor = _NonNegative.apply(raw)  # type: ignore[no-untyped-call]
    return value


def nonnegative_gradient(raw: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient that :func:`nonnegative` passes to ``raw``, given the gradient in its output.

    Args:
        raw: unconstrained parameter, of any shape.
        grad: gradient of the loss in ``nonnegative(raw)``, of the same shape.

    Example:
        >>> nonnegative_gradient(torch.tensor([0.5, -0.1, -0.1]), torch.tensor([3.0, 3.0, -3.0]))
        tensor([ 3.,  0., -3.])
    """
    return torch.where((raw > 0) | (grad < 0), grad, torch.zeros_like(grad))


def bounded(raw: Tensor, low: float, high: float) -> Tensor:
    """Clamp ``raw`` to [low, high] with a gradient that can leave either end again, as :func:`nonnegative` can leave 0.

    Args:
        raw: unconstrained parameter, of any shape.
        low: smallest value.
        high: largest value.

    Example:
        >>> raw = torch.tensor([0.5, 2.0, 2.0], requires_grad=True)
        >>> bounded(raw, 0.0, 1.0).backward(torch.tensor([3.0, 3.0, -3.0]))
        >>> raw.grad
        tensor([3., 3., 0.])
    """
    if not (torch.is_grad_enabled() and raw.requires_grad):
        return raw.clamp(low, high)
    below = torch.where(raw > high, high - nonnegative(high - raw), raw)
    return torch.where(below < low, low + nonnegative(below - low), below)
