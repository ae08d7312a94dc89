"""What the confidence bounds do: how many arms they hold for (Eq. 3), how many they rule out (Sec. 4.1)."""

from torch import Tensor


def coverage(
    means: Tensor,  # (*B, K) true means
    mu_hat: Tensor,  # (*B, K)
    width: Tensor,  # (*B, K)
    beta: Tensor,  # () or (*B,)
    *,
    mask: Tensor | None = None,  # (K,) or (*B, K)
) -> Tensor:  # (*B,)
    """Share of the allowed arms whose true mean lies within beta width of its estimate (Eq. 3).

    Example:
        >>> coverage(torch.tensor([1.0, 1.0]), torch.tensor([0.9, 0.0]), torch.tensor([0.2, 0.2]), torch.tensor(1.0))
        tensor(0.5000)
    """
    inside = (means - mu_hat).abs() <= beta.unsqueeze(-1) * width
    if mask is None:
        return inside.to(width.dtype).mean(-1)
    allowed = mask.expand(inside.shape)
    return (inside & allowed).sum(-1).to(width.dtype) / allowed.sum(-1)


def num_suboptimal(index: Tensor, *, mask: Tensor | None = None) -> Tensor:  # (*B, K) -> (*B,) int64
    """Number of allowed arms with S < 0, |L_t|.

    Example:
        >>> num_suboptimal(torch.tensor([0.2, -0.7, -0.1]), mask=torch.tensor([True, True, False]))
        tensor(1)
    """
    low = index < 0
    return (low if mask is None else low & mask).sum(-1)
