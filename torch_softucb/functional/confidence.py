"""Confidence bounds in one round: for how many arms they hold (Eq. 3), and how many arms they eliminate (Sec. 4.1)."""

from torch import Tensor

from torch_softucb.checks import check_arm_axis, check_batch, check_mask, check_same_shape


def coverage(
    means: Tensor,  # (*B, K)
    mu_hat: Tensor,  # (*B, K)
    width: Tensor,  # (*B, K)
    beta: Tensor,  # () or (*B,)
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B,)
    """Share of the allowed arms whose confidence bound holds, |mu - mu_hat| <= beta width (Eq. 3).

    Args:
        means: true mean reward of each arm.
        mu_hat: estimated mean reward of each arm.
        width: norm of each arm in the inverse Gram matrix.
        beta: confidence width, one for all bandits or one per bandit.
        mask: True = allowed.

    Example:
        >>> coverage(torch.tensor([1.0, 1.0]), torch.tensor([0.9, 0.0]), torch.tensor([0.2, 0.2]), torch.tensor(1.0))
        tensor(0.5000)
    """
    check_arm_axis("coverage", "mu_hat", mu_hat)
    check_same_shape("coverage", "means", means, "mu_hat", mu_hat)
    check_same_shape("coverage", "width", width, "mu_hat", mu_hat)
    check_batch("coverage", "beta", beta, mu_hat.shape[:-1])
    check_mask("coverage", mask, mu_hat.shape)
    return _coverage(means, mu_hat, width, beta, mask)


def _coverage(means: Tensor, mu_hat: Tensor, width: Tensor, beta: Tensor, mask: Tensor | None) -> Tensor:  # -> (*B,)
    inside = (means - mu_hat).abs() <= beta.unsqueeze(-1) * width  # Eq. 3
    if mask is None:
        return inside.to(width.dtype).mean(-1)
    allowed = mask.expand(inside.shape)
    return (inside & allowed).sum(-1).to(width.dtype) / allowed.sum(-1)


def num_suboptimal(
    index: Tensor,  # (*B, K)
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B,) int64
    """Count the allowed arms with S < 0, the size of L.

    Args:
        index: index S of every arm.
        mask: True = allowed.

    Example:
        >>> num_suboptimal(torch.tensor([0.2, -0.7, -0.1]), mask=torch.tensor([True, True, False]))
        tensor(1)
    """
    check_arm_axis("num_suboptimal", "index", index)
    check_mask("num_suboptimal", mask, index.shape)
    return _num_suboptimal(index, mask)


def _num_suboptimal(index: Tensor, mask: Tensor | None) -> Tensor:  # (*B, K) -> (*B,)
    low = index < 0
    return (low if mask is None else low & mask).sum(-1)
