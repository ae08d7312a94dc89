"""Estimates of arms that stay fixed, carried forward pull by pull instead of solved for.

With w = root^T x_a, u = root w = V^-1 x_a, z = X u and s = 1 + |w|^2, a pull changes width^2 by -z^2 / s and mu_hat by
z (y - mu_hat_a) / s: O(Kd + d^2) a round. Tensors are laid out with the batch innermost, (K, *B), and shown to policies
as (*B, K) views: every pass over arms and every broadcast over the batch then runs over contiguous memory.
"""

import math

import torch
from torch import Tensor

from torch_softucb.errors import NumericalError
from torch_softucb.functional.residuals import _residual_sum
from torch_softucb.functional.ridge import _ridge_estimate, _ridge_root
from torch_softucb.policies.decision import Estimate
from torch_softucb.problems.base import BanditProblem


class FixedArms:
    """What a batch of trajectories knows of its arms."""

    def __init__(self, problem: BanditProblem, ridge_alpha: float, *, running_sums: bool = False) -> None:
        like, batch, d = problem.means, problem.batch_shape, problem.dim
        ones = [1] * len(batch)
        self.given, self.shared = problem.arms, problem.shared_arms
        self.rows = problem.arms.reshape(-1, d).contiguous()  # (K, d) or (*B K, d): one arm's features lie together
        # (K, d), or (d, K, *B)
        self.arms = self.rows if self.shared else problem.arms.permute(-1, -2, *range(len(batch))).contiguous()
        first = torch.arange(0, len(self.rows), problem.num_arms, device=like.device)
        self.first = 0 if self.shared else first.view(batch)  # each trajectory's first row
        norm_sq = torch.linalg.vector_norm(self.arms, dim=1 if self.shared else 0).square_() / ridge_alpha
        if self.shared:
            norm_sq = norm_sq.view(-1, *ones).expand(-1, *batch)
        self.width_sq = norm_sq.clone(memory_format=torch.contiguous_format)  # (K, *B)
        self.mu_hat = torch.zeros_like(self.width_sq)  # (K, *B)
        eye = torch.eye(d, dtype=like.dtype, device=like.device) / math.sqrt(ridge_alpha)
        self.root = eye.view(d, d, *ones).repeat(1, 1, *batch)  # (d, d, *B)
        self.running_sums = (
            like.new_zeros(4, *batch) if running_sums else None
        )  # observations, residual sum, log det V / alpha, sum y^2
        self._space: dict[torch.Size, Tensor] = {}

    def _times(self, matrix: Tensor, other: Tensor) -> Tensor:
        """Product into memory that every round writes over: large blocks asked for anew cost more than the arithmetic."""
        if torch.compiler.is_compiling():  # makes no such product at all
            return matrix * other
        space = self._space.get(matrix.shape)
        if space is None:
            space = self._space[matrix.shape] = torch.empty_like(matrix)
        return torch.mul(matrix, other, out=space)

    def project(self, u: Tensor) -> Tensor:  # (d, *B) -> x_i . u, (K, *B)
        if self.shared:
            return (self.arms @ u.reshape(len(u), -1)).view(-1, *u.shape[1:])
        return self._times(self.arms, u.unsqueeze(1)).sum(0)

    def features(self, arm: Tensor) -> Tensor:  # (*B,) -> (d, *B)
        return self.rows.index_select(0, (self.first + arm).flatten()).T.contiguous().view(-1, *arm.shape)

    def perturb(self, z: Tensor) -> Tensor:  # (*B, d) -> (*B, K)
        return self.project(self._times_root(z.movedim(-1, 0).contiguous())).movedim(0, -1)

    def _times_root(self, z: Tensor) -> Tensor:  # (d, *B) -> root z, (d, *B)
        return self._times(self.root, z).sum(1)

    def check(self, t: int) -> None:
        """Widths only shrink, so what is negative or NaN now was caused in a round before; where play forgets, the native
        kernel marks a V that it could not factorise by a width^2 of -1."""
        if not bool(self.width_sq.amin() >= 0):
            bad = ~(self.width_sq >= 0)
            raise NumericalError(
                f"rollout: width^2 is negative or NaN for {int(bad.sum())} of {bad.numel()} arms at round {t + 1}; "
                f"{self.width_sq.dtype} is too short for this horizon or these features: use float64"
            )

    def estimate(self, num_observations: Tensor, gamma: Tensor, memory: Tensor) -> Estimate:
        mu_hat, width = self.mu_hat.movedim(0, -1), self.width_sq.sqrt().movedim(0, -1)
        root = self.root.movedim((0, 1), (-2, -1))
        running_sums = None if self.running_sums is None else self.running_sums[:3].movedim(0, -1)
        return Estimate(mu_hat, width, num_observations, gamma, self.perturb, self.given, root, memory, running_sums)

    def pull(self, arm: Tensor, reward: Tensor) -> tuple[Tensor, Tensor]:
        """Take in the rewards; returns what it gathered by arm, for torch.compile: see compiled.py."""
        x = self.features(arm)
        w = self._times(self.root, x.unsqueeze(1)).sum(0)  # root^T x
        u = self._times_root(w)  # V^-1 x
        z = self.project(u)
        s = 1 + w.square().sum(0)
        step = (reward - self.mu_hat.gather(0, arm.unsqueeze(0)).squeeze(0)) / s
        if self.running_sums is not None:
            self.running_sums += torch.stack((torch.ones_like(s), step.square() * s, s.log(), torch.zeros_like(s)))
        self.mu_hat.addcmul_(z, step)
        self.width_sq.addcmul_(z, z / -s)
        self.root.addcmul_(u.unsqueeze(1), w / (s + s.sqrt()), value=-1)  # functional.ridge_root_update
        return x, step

    def state_dict(self) -> dict[str, Tensor]:
        kept = {"mu_hat": self.mu_hat, "width_sq": self.width_sq, "root": self.root}
        return kept if self.running_sums is None else kept | {"running_sums": self.running_sums}


class ForgettingArms(FixedArms):
    """The same when every round keeps a share ``discount`` of what was known (:func:`policies.statistics.forget`).

    Nothing can be carried forward then: every round factorises V, O(d^3 + K d^2).
    """

    def __init__(self, problem: BanditProblem, ridge_alpha: float, *, discount: float, running_sums: bool = False) -> None:
        super().__init__(problem, ridge_alpha, running_sums=running_sums)
        like, batch, d = problem.means, problem.batch_shape, problem.dim
        ones = [1] * len(batch)
        eye = torch.eye(d, dtype=like.dtype, device=like.device).view(d, d, *ones)
        self.discount, self.ridge_alpha = discount, ridge_alpha
        self.ridge = (1 - discount) * ridge_alpha * eye
        self.V = (ridge_alpha * eye).repeat(1, 1, *batch)  # (d, d, *B)
        self.b = like.new_zeros(d, *batch)  # (d, *B)

    def pull(self, arm: Tensor, reward: Tensor) -> tuple[Tensor, Tensor]:
        x = self.features(arm)
        self.V.mul_(self.discount).add_(self.ridge).add_(x.unsqueeze(1) * x.unsqueeze(0))
        self.b.mul_(self.discount).add_(x * reward)
        root, b = _ridge_root(self.V.movedim((0, 1), (-2, -1))), self.b.movedim(0, -1)
        mu_hat, width = _ridge_estimate(self.given, root, b)
        self.mu_hat.copy_(mu_hat.movedim(-1, 0))
        self.width_sq.copy_(width.square().movedim(-1, 0))
        self.root.copy_(root.movedim((-2, -1), (0, 1)))
        if self.running_sums is not None:
            count, squares = self.discount * self.running_sums[0] + 1, self.discount * self.running_sums[3] + reward.square()
            log_det = -2 * root.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)
            log_det = log_det - len(x) * math.log(self.ridge_alpha)
            self.running_sums.copy_(torch.stack((count, _residual_sum(squares, root, b), log_det, squares)))
        return x, reward

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | {"V": self.V, "b": self.b}
