r"""Ridge statistics of a linear bandit (Sec. 4.1): V, b, and a square root of V's inverse.

V = alpha I + sum x x^T (departure D5: the ridge is part of V), b = sum x y, theta_hat = V^-1 b.
The cache is a matrix ``root`` with root root^T = V^-1 rather than V^-1 itself. The width ||x||_{V^-1} = |root^T x| then
cannot be negative, only half as many digits are lost when V is ill-conditioned, and root z with a standard normal z is a
draw from N(0, V^-1) for Thompson sampling.
"""

import math

import torch
from torch import Tensor

from torch_softucb.checks import check_shape
from torch_softucb.errors import NumericalError
from torch_softucb.functional._checks import shape_text

_BLOCK = 2048  # arms per block: their products stay in the processor's cache until the norm is taken


def ridge_root(V: Tensor) -> Tensor:  # (*B, d, d) -> (*B, d, d)
    """Return a matrix ``root`` with ``root @ root.mT == inverse(V)``, from V's Cholesky factor.

    Args:
        V: symmetric positive definite matrix per bandit.

    Raises:
        NumericalError: V is not positive definite.

    Example:
        >>> ridge_root(torch.tensor([[4.0]]))
        tensor([[0.5000]])
    """
    _check_square("ridge_root", "V", V)
    return _ridge_root(V)


def _ridge_root(V: Tensor) -> Tensor:  # (*B, d, d) -> (*B, d, d)
    lower, info = torch.linalg.cholesky_ex(V)
    if not torch.compiler.is_compiling() and bool((info != 0).any()):
        raise NumericalError(f"ridge_root: V is not positive definite in {int((info != 0).sum())} of {info.numel()} bandits")
    eye = torch.eye(V.shape[-1], dtype=V.dtype, device=V.device)
    inverse: Tensor = torch.linalg.solve_triangular(lower, eye, upper=False)
    return inverse.mT


def ridge_root_update(
    root: Tensor,  # (*B, d, d)
    x: Tensor,  # (*B, d)
) -> Tensor:  # (*B, d, d)
    r"""Return ``root`` after V has gained :math:`x x^T`, in O(d^2).

    With w = root^T x and q = |w|^2, (V + x x^T)^-1 = root (I - w w^T / (1 + q)) root^T, and I - c w w^T is a square
    root of the bracket when c = (1 - 1 / sqrt(1 + q)) / q = 1 / (1 + q + sqrt(1 + q)), which avoids dividing by a small q.

    Args:
        root: a matrix with root root^T = V^-1.
        x: features of the arm that was pulled.

    Example:
        >>> ridge_root_update(torch.tensor([[0.5]]), torch.tensor([1.0])).square()  # 1 / (4 + 1)
        tensor([[0.2000]])
    """
    _check_square("ridge_root_update", "root", root)
    check_shape("ridge_root_update", "x", x.shape, x.shape == root.shape[:-1], f"{tuple(root.shape[:-1])}")
    return _ridge_root_update(root, x)


def _ridge_root_update(root: Tensor, x: Tensor) -> Tensor:  # (*B, d, d), (*B, d) -> (*B, d, d)
    w = root.mT @ x.unsqueeze(-1)  # (*B, d, 1)
    s = 1 + w.square().sum(-2, keepdim=True)
    return root - (root @ w) * (w.mT / (s + s.sqrt()))


def ridge_cache_error(V: Tensor, root: Tensor) -> Tensor:  # (*B, d, d), (*B, d, d) -> (*B,)
    """Error of a cached root, max |I - root^T V root|; d times it bounds the relative error of every width^2.

    Args:
        V: the matrix whose inverse is cached.
        root: the cache.

    Example:
        >>> ridge_cache_error(torch.tensor([[4.0]]), torch.tensor([[0.6]]))  # |1 - 0.36 * 4|
        tensor(0.4400)
    """
    _check_square("ridge_cache_error", "V", V)
    check_shape("ridge_cache_error", "root", root.shape, root.shape == V.shape, f"{tuple(V.shape)}, as V has")
    eye = torch.eye(V.shape[-1], dtype=V.dtype, device=V.device)
    return (eye - root.mT @ V @ root).abs().amax((-2, -1))


def ridge_estimate(
    arms: Tensor,  # (K, d) or (*B, K, d)
    root: Tensor,  # (*B, d, d)
    b: Tensor,  # (*B, d)
) -> tuple[Tensor, Tensor]:  # (*B, K), (*B, K)
    """Estimated mean and confidence width of every arm: mu_hat_i = x_i . theta_hat, width_i = ||x_i||_{V^-1}.

    An arm whose features are all 0 has width 0, and gradient 0 in backward.

    Args:
        arms: features of the arms, shared by all bandits or per bandit.
        root: a matrix with root root^T = V^-1.
        b: sum of x y.

    Returns:
        mu_hat and width. With one bandit, leading dimensions of ``arms`` are requests.

    Example:
        >>> arms = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
        >>> ridge_estimate(arms, root=torch.eye(2) / 2, b=torch.tensor([4.0, 0.0]))  # V = 4 I
        (tensor([1., 0.]), tensor([0.5000, 1.5000]))
    """
    where = "ridge_estimate"
    _check_square(where, "root", root)
    check_shape(where, "b", b.shape, b.shape == root.shape[:-1], f"{tuple(root.shape[:-1])}")
    _check_arms(where, arms, b)
    return _ridge_estimate(arms, root, b)


def _ridge_solve(root: Tensor, b: Tensor) -> Tensor:  # (*B, d, d), (*B, d) -> (*B, d)
    """Return V^-1 b."""
    return (root @ (root.mT @ b.unsqueeze(-1))).squeeze(-1)


def _ridge_estimate(arms: Tensor, root: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    if b.dim() == 1:
        mu_hat = arms @ torch.mv(root, torch.mv(root.mT, b))
    else:
        mu_hat = (arms @ _ridge_solve(root, b).unsqueeze(-1)).squeeze(-1)
    return mu_hat, torch.linalg.vector_norm(arms @ root, dim=-1)


def ridge_estimate_blocks(
    arms: Tensor,  # (*N, K, d)
    root: Tensor,  # (d, d)
    b: Tensor,  # (d,)
) -> tuple[Tensor, Tensor]:  # (*N, K), (*N, K)
    """:func:`ridge_estimate` for one bandit and many arms, block by block and without a graph.

    The products are computed in root's dtype and not kept. This takes little longer than ``arms @ root`` alone.

    Args:
        arms: features of the arms; leading dimensions are requests.
        root: a matrix with root root^T = V^-1.
        b: sum of x y.

    Example:
        >>> arms = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
        >>> ridge_estimate_blocks(arms, root=torch.eye(2) / 2, b=torch.tensor([4.0, 0.0]))
        (tensor([1., 0.]), tensor([0.5000, 1.5000]))
    """
    where = "ridge_estimate_blocks"
    check_shape(where, "root", root.shape, root.dim() == 2 and root.shape[0] == root.shape[1], "(d, d)")
    check_shape(where, "b", b.shape, b.shape == root.shape[:1], f"{tuple(root.shape[:1])}")
    _check_arms(where, arms, b)
    return _ridge_estimate_blocks(arms, root, b)


def _ridge_estimate_blocks(arms: Tensor, root: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
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
    """Return whether products in ``dtype`` keep the relative error of every width below about 1e-4.

    A product x . root has an error of up to eps |x| |root|, and the width is at least |x| / sqrt(largest eigenvalue of V).
    The relative error is therefore at most eps sqrt(trace(V) trace(V^-1)).

    Args:
        V: Gram matrix of one bandit.
        root: a matrix with root root^T = V^-1.
        dtype: dtype of the products.

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


def _check_square(where: str, name: str, matrix: Tensor) -> None:
    square = matrix.dim() >= 2 and matrix.shape[-1] == matrix.shape[-2]
    check_shape(where, name, matrix.shape, square, "(*B, d, d)")


def _check_arms(where: str, arms: Tensor, b: Tensor) -> None:
    """Check that features are shared by all bandits or per bandit; for a single bandit, leading dimensions are requests."""
    batch, d = b.shape[:-1], b.shape[-1]
    fits = arms.dim() >= 2 and arms.shape[-1] == d and (arms.dim() == 2 or not batch or arms.shape[:-2] == batch)
    per_bandit = shape_text(*batch, "K", d) if batch else shape_text("*N", "K", d)
    check_shape(where, "arms", arms.shape, fits, f"{shape_text('K', d)} or {per_bandit}")
