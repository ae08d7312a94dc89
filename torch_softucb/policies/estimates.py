"""From ridge statistics to estimates of a set of arms."""

import math
from functools import partial

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_finite, values_readable
from torch_softucb.functional.residuals import _residual_sum
from torch_softucb.functional.ridge import _ridge_estimate, _ridge_estimate_blocks, _ridge_root
from torch_softucb.policies._checks import check_statistics
from torch_softucb.policies.decision import Estimate
from torch_softucb.policies.fast_path import MAX_FEATURES
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.policies.rows import RidgeState


def estimate_arms(
    where: str,
    state: RidgeState,
    arms: Tensor,  # (K, d) or (*B, K, d)
    pending: Tensor | None,  # (d, d) or (*B, d, d)
    *,
    convert_memory: bool,
    sums: Tensor | None,  # (*B, 3)
) -> Estimate:
    """Estimate the mean and width of each arm.

    Args:
        where: class of the policy, for error messages.
        state: statistics of the bandits that decide.
        arms: features.
        pending: sum of x x^T over pulls without a reward yet; narrows the width, never changes the mean.
        convert_memory: whether the policy computes with ``root`` and ``memory`` in the dtype of the arms.
        sums: the estimate's ``running_sums``.
    """
    many = values_readable(arms) and pending is None and state.b.dim() == 1 and arms.numel() > MAX_FEATURES
    # statistics are float64; a float32 product has a relative error of up to sqrt(cond(V)) * 6e-8
    dtype = arms.dtype if many and F.low_precision_suffices(state.V, state.root, arms.dtype) else torch.float64
    root, b = state.root.to(dtype), state.b.to(dtype)
    if many and not torch.is_grad_enabled():
        mu_hat, width = _ridge_estimate_blocks(arms, root, b)
    else:
        mu_hat, width = _ridge_estimate(arms.to(dtype), root, b)
    # mu_hat is smaller than arms, and NaN or inf in a feature always reaches it (0 * inf is NaN)
    if values_readable(mu_hat) and not math.isfinite(mu_hat.detach().sum().item()):
        check_finite(where, "arms", arms)
        check_statistics(where, mu_hat)
    if pending is not None:
        root = _ridge_root(state.V + pending.double()).to(dtype)
        width = _ridge_estimate(arms.to(dtype), root, b)[1]

    return Estimate(
        mu_hat=mu_hat.to(arms.dtype),
        width=width.to(arms.dtype),
        num_observations=state.num_observations,
        gamma=state.gamma,
        perturb=partial(_perturb, arms, root),
        arms=arms,
        root=state.root.to(arms.dtype) if convert_memory else root,
        memory=state.memory.to(arms.dtype) if convert_memory else state.memory,
        running_sums=sums,
    )


def with_prior(estimate: Estimate, prior: GaussianPrior, arms: Tensor) -> Estimate:  # (K, d) or (*B, K, d)
    """Return an estimate from whitened coordinates in the unit of the rewards.

    Args:
        estimate: estimate of the whitened arms.
        prior: prior of the policy.
        arms: features as the caller gave them.
    """
    predicted = prior.predict(arms).expand_as(estimate.mu_hat)
    offset = estimate.mu_hat.new_full(estimate.mu_hat.shape[:-1], prior.offset)
    return estimate._replace(mu_hat=estimate.mu_hat + predicted, offset=offset, prior_mean=predicted)


def _perturb(arms: Tensor, root: Tensor, z: Tensor) -> Tensor:  # (*B, K, d), (*B, d, d), (*B, d) -> (*B, K)
    step = root @ z.to(root.dtype).unsqueeze(-1)
    return (arms.to(root.dtype) @ step).squeeze(-1).to(arms.dtype)


def running_sums(state: RidgeState, ridge_alpha: float) -> Tensor:  # (*B, 3)
    """Return count, residual sum of squares and log det(V / alpha), given a memory of count and sum y^2."""
    count, squares = state.memory.unbind(-1)
    log_det = torch.logdet(state.V) - state.b.shape[-1] * math.log(ridge_alpha)
    return torch.stack((count, _residual_sum(squares, state.root, state.b), log_det), dim=-1)
