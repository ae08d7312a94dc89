"""The UCB-based index S, Eqs. 6-7."""

import torch
from torch import Tensor

from torch_softucb.checks import check_arm_axis, check_batch, check_mask, check_same_shape
from torch_softucb.functional.softmax import masked


def soft_ucb_index(
    mu_hat: Tensor,  # (*B, K)
    width: Tensor,  # (*B, K)
    beta: Tensor,  # () or (*B,)
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B, K)
    r"""Index of every arm, :math:`S_i = \beta\phi_i - \hat\Delta_i` (Eqs. 6-7), computed as UCB_i - max_j LCB_j.

    phi and the gap are measured from ``i_star``, the allowed arm with the largest *lower* confidence bound, which need not
    be the best arm. The gap is signed, as printed (D11).

    Args:
        mu_hat: estimated mean reward of each arm.
        width: norm of each arm in the inverse Gram matrix, >= 0.
        beta: confidence width, one for all bandits or one per bandit.
        mask: True = allowed. The index of a masked arm is computed too, but has no meaning.

    Returns:
        S; an arm with S < 0 is suboptimal wherever the confidence bounds hold (Lemma 1).

    Example:
        >>> soft_ucb_index(torch.tensor([1.0, 0.0]), torch.tensor([0.1, 0.2]), torch.tensor(1.0))
        tensor([ 0.2000, -0.7000])
    """
    check_arm_axis("soft_ucb_index", "mu_hat", mu_hat)
    check_same_shape("soft_ucb_index", "width", width, "mu_hat", mu_hat)
    check_batch("soft_ucb_index", "beta", beta, mu_hat.shape[:-1])
    check_mask("soft_ucb_index", mask, mu_hat.shape)
    return _soft_ucb_index(mu_hat, width, beta, mask)


def _soft_ucb_index(mu_hat: Tensor, width: Tensor, beta: Tensor, mask: Tensor | None) -> Tensor:
    beta = beta.unsqueeze(-1)
    best_lower = masked(torch.addcmul(mu_hat, beta, width, value=-1), mask).amax(-1, keepdim=True)
    upper = torch.addcmul(mu_hat, beta, width)
    return upper.sub_(best_lower)  # Eq. 7
