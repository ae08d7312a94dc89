"""The gradient estimator of beta, Eqs. 12-13, as a custom autograd function."""

from typing import Any

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_axis, check_batch, check_mask, check_shape
from torch_softucb.functional.softmax import _softmax, masked


def _softmax_policy(
    beta: Tensor, mu_hat: Tensor, width: Tensor, gamma: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """UCB less its maximum, and p; S is UCB less a constant of the round, which a softmax does not see (Eqs. 7-8)."""
    ucb = mu_hat + beta * width
    ucb = ucb - masked(ucb, mask).amax(-1, keepdim=True).detach()  # small numbers times a large gamma, not large ones
    return ucb, _softmax(gamma * ucb, mask)


class _ExpectedReward(torch.autograd.Function):
    """sum_i p_i mu_hat_i; saves its inputs only and computes p again in backward, so second derivatives are right."""

    generate_vmap_rule = True

    @staticmethod
    def forward(beta: Tensor, mu_hat: Tensor, width: Tensor, gamma: Tensor, mask: Tensor | None) -> Tensor:
        return (_softmax_policy(beta, mu_hat, width, gamma, mask)[1] * mu_hat).sum(-1, keepdim=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        beta, mu_hat, width, gamma, mask = ctx.saved_tensors
        ucb, p = _softmax_policy(beta, mu_hat, width, gamma, mask)
        value = (p * mu_hat).sum(-1, keepdim=True)
        d_logits = grad * p * (mu_hat - value)  # logits = gamma ucb; sum_i p_i mu_i (1[i=j] - p_j) = p_j (mu_j - value)
        d_ucb = gamma * d_logits
        d_beta = (d_ucb * width).sum(-1, keepdim=True)  # Eq. 13, one round
        d_gamma = (d_logits * ucb).sum(-1, keepdim=True)  # the shift of ucb drops out: d_logits sums to 0
        return d_beta, d_ucb + grad * p, beta * d_ucb, d_gamma, None


def expected_reward(
    beta: Tensor,  # () or (*B,)
    mu_hat: Tensor,  # (*B, K)
    width: Tensor,  # (*B, K)
    gamma: Tensor,  # () or (*B,)
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B,)
    """Estimated reward of a round, sum_i p_i mu_hat_i; its gradient in beta is one round of Eq. 13.

    Departure D3: gamma and i_star are inputs or drop out, so beta's gradient holds them constant, as the paper does. For
    the gradient with gamma differentiated too, pass a gamma that was computed from beta with autograd on.

    Example:
        >>> beta = torch.tensor(1.0, requires_grad=True)
        >>> reward = expected_reward(beta, torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), torch.tensor(2.0))
        >>> reward  # equal upper bounds: p = (1/2, 1/2)
        tensor(0.5000, grad_fn=<SqueezeBackward1>)
        >>> torch.autograd.grad(reward, beta)  # gamma (E[mu w] - E[mu] E[w]) = 2 (0 - 1/4)
        (tensor(-0.5000),)
    """
    check_arm_axis("expected_reward", "mu_hat", mu_hat)
    check_shape("expected_reward", "width", width.shape, width.shape == mu_hat.shape, f"of mu_hat {tuple(mu_hat.shape)}")
    batch = mu_hat.shape[:-1]
    check_batch("expected_reward", "beta", beta, batch)
    check_batch("expected_reward", "gamma", gamma, batch)
    check_mask("expected_reward", mask, mu_hat.shape)
    beta, gamma = beta.expand(batch).unsqueeze(-1), gamma.expand(batch).unsqueeze(-1)
    value: Tensor = _ExpectedReward.apply(beta, mu_hat, width, gamma, mask)  # type: ignore[no-untyped-call]
    return value.squeeze(-1)


def reward_and_gradient(
    probs: Tensor,  # (*B, K)
    mu_hat: Tensor,  # (*B, K)
    width: Tensor,  # (*B, K)
    gamma: Tensor,  # () or (*B,)
) -> tuple[Tensor, Tensor]:  # (*B,), (*B,)
    """Estimated reward of a round and the reward part of Eq. 13, when the probabilities are there already: no graph.

    phi_i - sum p phi = width_i - sum p width, as phi differs from width by a constant of the round.

    Example:
        >>> half = torch.tensor([0.5, 0.5])
        >>> reward_and_gradient(half, torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), torch.tensor(2.0))
        (tensor(0.5000), tensor(-0.5000))
    """
    value = (probs * mu_hat).sum(-1)
    return value, gamma * (mu_hat - value.unsqueeze(-1)).mul_(probs).mul_(width).sum(-1)


class _NonNegative(torch.autograd.Function):
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


def nonnegative_gradient(raw: Tensor, grad: Tensor) -> Tensor:
    """What :func:`nonnegative` passes back to ``raw``, when the gradient in beta is there already."""
    return torch.where((raw > 0) | (grad < 0), grad, torch.zeros_like(grad))


def bounded(raw: Tensor, low: float, high: float) -> Tensor:
    """``raw`` within [low, high], with a gradient that can leave either end again, as :func:`nonnegative`'s can leave 0.

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


def nonnegative(raw: Tensor) -> Tensor:
    """max(raw, 0), with a gradient that can leave 0 again (departure D9).

    While raw > 0 the gradient is the identity, so a step of SGD is the paper's. At raw <= 0 a gradient that would lower
    raw further is dropped and one that raises it passes: beta waits at 0 and comes back, whatever the optimiser.

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
