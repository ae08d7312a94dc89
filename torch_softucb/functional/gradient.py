"""The gradient of a round's reward in beta, Eq. 13: as a custom autograd function, and in closed form without a graph."""

from typing import Any

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_axis, check_batch, check_mask, check_same_shape
from torch_softucb.functional.softmax import _softmax, masked


def _shifted_ucb_and_probs(
    beta: Tensor,  # (*B, 1)
    mu_hat: Tensor,  # (*B, K)
    width: Tensor,  # (*B, K)
    gamma: Tensor,  # (*B, 1)
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:  # (*B, K), (*B, K)
    """Return UCB minus its maximum, and p.

    These are the probabilities of Eqs. 7-8. They do not come from ``_soft_ucb_index`` because S is UCB minus a constant per
    round, and the softmax cancels any constant. Subtracting the largest UCB keeps ``gamma * ucb`` accurate for a large
    gamma, and needs no gradient through i_star.
    """
    ucb = mu_hat + beta * width
    ucb = ucb - masked(ucb, mask).amax(-1, keepdim=True).detach()
    return ucb, _softmax(gamma * ucb, mask)  # Eq. 8


class _ExpectedReward(torch.autograd.Function):
    """sum_i p_i mu_hat_i. Saves only its inputs and recomputes p in backward, so that second derivatives are right."""

    generate_vmap_rule = True

    @staticmethod
    def forward(beta: Tensor, mu_hat: Tensor, width: Tensor, gamma: Tensor, mask: Tensor | None) -> Tensor:
        return (_shifted_ucb_and_probs(beta, mu_hat, width, gamma, mask)[1] * mu_hat).sum(-1, keepdim=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        beta, mu_hat, width, gamma, mask = ctx.saved_tensors
        ucb, p = _shifted_ucb_and_probs(beta, mu_hat, width, gamma, mask)
        value = (p * mu_hat).sum(-1, keepdim=True)
        d_logits = grad * p * (mu_hat - value)  # logits = gamma ucb; sum_i p_i mu_i (1[i=j] - p_j) = p_j (mu_j - value)
        d_ucb = gamma * d_logits
        d_beta = (d_ucb * width).sum(-1, keepdim=True)  # Eq. 13, one round
        d_gamma = (d_logits * ucb).sum(-1, keepdim=True)  # the shift of ucb cancels: d_logits sums to 0
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

    Departure D3: beta's gradient holds gamma and i_star constant, as the paper does. gamma is an input, and i_star cancels.
    To differentiate gamma as well, pass a gamma that was computed from beta with autograd enabled.

    Args:
        beta: confidence width, one for all bandits or one per bandit.
        mu_hat: estimated mean reward of each arm.
        width: norm of each arm in the inverse Gram matrix.
        gamma: coldness, one for all bandits or one per bandit.
        mask: True = allowed.

    Returns:
        The value, differentiable twice in all four tensors.

    Example:
        >>> beta = torch.tensor(1.0, requires_grad=True)
        >>> reward = expected_reward(beta, torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), torch.tensor(2.0))
        >>> reward  # equal upper bounds: p = (1/2, 1/2)
        tensor(0.5000, grad_fn=<SqueezeBackward1>)
        >>> torch.autograd.grad(reward, beta)  # gamma (E[mu w] - E[mu] E[w]) = 2 (0 - 1/4)
        (tensor(-0.5000),)
    """
    check_arm_axis("expected_reward", "mu_hat", mu_hat)
    check_same_shape("expected_reward", "width", width, "mu_hat", mu_hat)
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
    """Estimated reward of a round and the reward part of Eq. 13, from given probabilities and without a graph.

    width replaces the paper's phi: the two differ by a constant per round, so phi_i - sum p phi = width_i - sum p width.

    Args:
        probs: the policy's probabilities, 0 at masked arms.
        mu_hat: estimated mean reward of each arm.
        width: norm of each arm in the inverse Gram matrix.
        gamma: coldness behind ``probs``.

    Returns:
        sum_i p_i mu_hat_i, and its derivative in beta.

    Example:
        >>> half = torch.tensor([0.5, 0.5])
        >>> reward_and_gradient(half, torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), torch.tensor(2.0))
        (tensor(0.5000), tensor(-0.5000))
    """
    check_arm_axis("reward_and_gradient", "probs", probs)
    check_same_shape("reward_and_gradient", "mu_hat", mu_hat, "probs", probs)
    check_same_shape("reward_and_gradient", "width", width, "probs", probs)
    check_batch("reward_and_gradient", "gamma", gamma, probs.shape[:-1])
    return _reward_and_gradient(probs, mu_hat, width, gamma)


def _reward_and_gradient(probs: Tensor, mu_hat: Tensor, width: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor]:
    value = (probs * mu_hat).sum(-1)
    return value, gamma * (mu_hat - value.unsqueeze(-1)).mul_(probs).mul_(width).sum(-1)  # Eq. 13, one round
