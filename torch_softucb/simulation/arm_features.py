"""Features of the arms, laid out for the operations that a round needs."""

import functools

import torch
from torch import Tensor

from torch_softucb.problems.base import BanditProblem


class Workspace:
    """Preallocated outputs of elementwise products: allocating large ones every round costs more than the arithmetic."""

    def __init__(self) -> None:
        self._outputs: dict[torch.Size, Tensor] = {}

    def multiply(self, matrix: Tensor, other: Tensor) -> Tensor:
        """Return ``matrix * other`` in memory that the next product of this shape overwrites."""
        if torch.compiler.is_compiling():  # the compiler never materialises the product
            return matrix * other
        output = self._outputs.get(matrix.shape)
        if output is None:
            output = self._outputs[matrix.shape] = torch.empty_like(matrix)
        return torch.mul(matrix, other, out=output)


class ArmFeatures:
    """Features of arms that stay fixed, shared by all trajectories or separate for each.

    Attributes:
        given: the features as the problem holds them, ``(K, d)`` or ``(*B, K, d)``.
        shared: whether all trajectories have the same arms.
        batch_dims: number of batch dimensions.
        layout: ``(K, d)`` if shared, else ``(d, K, *B)`` with the batch innermost.
        workspace: preallocated products.
    """

    def __init__(self, problem: BanditProblem) -> None:
        batch = problem.batch_shape
        self.given, self.shared, self.workspace = problem.arms, problem.shared_arms, Workspace()
        self._rows = problem.arms.reshape(-1, problem.dim).contiguous()  # (K, d) or (*B K, d): one arm per row
        self.layout = self._rows if self.shared else problem.arms.permute(-1, -2, *range(len(batch))).contiguous()
        first = torch.arange(0, len(self._rows), problem.num_arms, device=problem.means.device)
        self._first_row = 0 if self.shared else first.view(batch)  # of each trajectory
        self.batch_dims = len(batch)

    @functools.cached_property
    def norm_sq(self) -> Tensor:  # (K, 1...) if shared, else (K, *B)
        """Squared length of every arm's features."""
        # not square().sum(0), whose order of additions depends on the batch
        norm_sq: Tensor = torch.linalg.vector_norm(self.layout, dim=1 if self.shared else 0).square_()
        return norm_sq.view(-1, *[1] * self.batch_dims) if self.shared else norm_sq

    def project(self, u: Tensor) -> Tensor:  # (d, *B) -> (K, *B)
        """Return the inner product of every arm with ``u``."""
        if self.shared:
            return (self.layout @ u.reshape(len(u), -1)).view(-1, *u.shape[1:])
        return self.workspace.multiply(self.layout, u.unsqueeze(1)).sum(0)

    def gather(self, arm: Tensor) -> Tensor:  # (*B,) -> (d, *B)
        """Return the features of one arm per trajectory."""
        return self._rows.index_select(0, (self._first_row + arm).flatten()).T.contiguous().view(-1, *arm.shape)
