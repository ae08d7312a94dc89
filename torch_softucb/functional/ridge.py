r"""Ridge statistics of a linear bandit (Sec. 4.1): V, b, and a square root of V's inverse.

V = alpha I + sum x x^T (departure D5: the ridge is part of V), b = sum x y, theta_hat = V^-1 b.
The cache is a matrix ``root`` with root root^T = V^-1, not V^-1 itself: ||x||_{V^-1} = |root^T x| cannot be negative,
loses half the digits that an inverse loses when V is ill-conditioned, and draws N(0, V^-1) for Thompson sampling.
"""

import math

import torch
from torch import Tensor

from torch_softucb.errors import NumericalError


def ridge_root(V: Tensor) -> Tensor:  # (*B, d, d) -> (*B, d, d)
    """A matrix with ``root @ root.mT == inverse(V)``, from V's Cholesky factor.

    Example:
        >>> ridge_root(torch.tensor([[4.0]]))
        tensor([[0.5000]])
    """
    lower, info = torch.linalg.cholesky_ex(V)
    if not torch.compiler.is_compiling() and bool((info != 0).any()):
        raise NumericalError(f"ridge_root: V is not positive definite in {int((info != 0).sum())} of {info.numel()} bandits")
    eye = torch.eye(V.shape[-1], dtype=V.dtype, device=V.device)
    inverse: Tensor = torch.linalg.solve_triangular(lower, eye, upper=False)
    return inverse.mT


def ridge_root_update(
    root: Tensor,  # (*B, d, d)
    x: Tensor,  # (*B, d)
) -> Tensor:
    r"""``root`` after V gained :math:`x x^T`, in O(d^2).

    With w = root^T x and q = |w|^2, (V + x x^T)^-1 = root (I - w w^T / (1 + q)) root^T, and I - c w w^T is a square
    root of the bracket when c = (1 - 1 / sqrt(1 + q)) / q = 1 / (1 + q + sqrt(1 + q)): no division by a small q.

    Example:
        >>> ridge_root_update(torch.tensor([[0.5]]), torch.tensor([1.0])).square()  # 1 / (4 + 1)
        tensor([[0.2000]])
    """
    w = root.mT @ x.unsqueeze(-1)  # (*B, d, 1)
    s = 1 + w.square().sum(-2, keepdim=True)
    return root - (root @ w) * (w.mT / (s + s.sqrt()))


def ridge_cache_error(V: Tensor, root: Tensor) -> Tensor:  # (*B, d, d), (*B, d, d) -> (*B,)
    """How far the cache is off: max |I - root^T V root|. Times d, it bounds the relative error of every width^2."""
    eye = torch.eye(V.shape[-1], dtype=V.dtype, device=V.device)
    return (eye - root.mT @ V @ root).abs().amax((-2, -1))


def ridge_estimate(
    arms: Tensor,  # (K, d) or (*B, K, d)
    root: Tensor,  # (*B, d, d)
    b: Tensor,  # (*B, d)
) -> tuple[Tensor, Tensor]:
    """Estimated mean and confidence width of every arm: mu_hat_i = x_i . theta_hat, width_i = ||x_i||_{V^-1}.

    A zero feature vector has width 0 and, in backward, gradient 0.

    Example:
        >>> arms = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
        >>> ridge_estimate(arms, root=torch.eye(2) / 2, b=torch.tensor([4.0, 0.0]))  # V = 4 I
        (tensor([1., 0.]), tensor([0.5000, 1.5000]))
    """
    if b.dim() == 1:
        mu_hat = arms @ torch.mv(root, torch.mv(root.mT, b))
    else:
        mu_hat = (arms @ (root @ (root.mT @ b.unsqueeze(-1)))).squeeze(-1)
    return mu_hat, torch.linalg.vector_norm(arms @ root, dim=-1)


_BLOCK = 2048  # arms whose products stay in the cache until their norm is taken


def ridge_estimate_blocks(
    arms: Tensor,  # (*N, K, d)
    root: Tensor,  # (d, d)
    b: Tensor,  # (d,)
) -> tuple[Tensor, Tensor]:
    """:func:`ridge_estimate` for one bandit and many arms, in root's dtype: products are made block by block, not kept.

    Without a graph. Takes hardly longer than the product ``arms @ root`` alone.
    """
    flat = arms.reshape(-1, arms.shape[-1])
    theta_hat = torch.mv(root, torch.mv(root.mT, b))
    mu_hat, width = flat.new_empty(len(flat)), flat.new_empty(len(flat))
    for start in range(0, len(flat), _BLOCK):
        block = slice(start, start + _BLOCK)
        x = flat[block].to(root.dtype)
        mu_hat[block] = torch.mv(x, theta_hat)
        width[block] = torch.linalg.vector_norm(x @ root, dim=-1)
    return mu_hat.view(arms.shape[:-1]), width.view(arms.shape[:-1])


def low_precision_suffices(V: Tensor, root: Tensor, dtype: torch.dtype) -> bool:  # (d, d), (d, d)
    """Do products in ``dtype`` leave every width within about 1e-4 of its value?

    A product x . root is off by up to eps |x| |root|, and the width is at least |x| / sqrt(largest eigenvalue of V):
    relative error up to eps sqrt(trace(V) trace(V^-1)).

    Example:
        >>> V = torch.eye(2, dtype=torch.float64)
        >>> low_precision_suffices(V, ridge_root(V), torch.float32)
        True
        >>> V[0, 0] = 1e8
        >>> low_precision_suffices(V, ridge_root(V), torch.float32)
        False
    """
    condition = V.trace().item() * root.square().sum().item()
    return torch.finfo(dtype).eps * math.sqrt(condition) <= 1e-4
