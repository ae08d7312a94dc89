"""The state of trajectories in progress: everything that changes from round to round."""

import math
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

from torch_softucb.errors import NumericalError
from torch_softucb.policies.auto import AutoSoftUCB
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.problems.base import BanditProblem
from torch_softucb.simulation.arm_features import ArmFeatures
from torch_softucb.simulation.saved_state import SimulationState, check_finite_numbers
from torch_softucb.simulation.scales import fresh_scales

RUNNING_SUMS = ("num_observations", "residual_sum", "log_det", "sum_of_squares")  # the rows of PlayState.running_sums


@dataclass(eq=False)
class PlayState(SimulationState):
    """Everything about a batch of trajectories that a round reads and writes.

    The batch is the innermost dimension of the estimates, so that every pass over arms and every broadcast over the batch
    runs over contiguous memory. The native kernel takes the tensors in the order of these fields.

    Attributes:
        mu_hat: estimated mean reward of each arm, ``(K, *B)``.
        width_sq: squared confidence width of each arm, ``(K, *B)``.
        root: matrix with ``root @ root.mT == inverse(V)``, ``(d, d, *B)``.
        gamma: coldness of the previous round, used by ``coldness="lagged"``, ``(*B,)``.
        running_sums: the sums named in ``RUNNING_SUMS``, ``(4, *B)``; None if the policy does not use them.
        V: ridge matrix, ``(d, d, *B)``; None without forgetting.
        b: sum of features times reward, ``(d, *B)``; None without forgetting.
        arm_sums: how often each arm was played, the sum of its rewards and the sum of their squares, ``(*B, K, 3)``
            float64; None where :class:`~torch_softucb.simulation.refresh.Refresh` does not need them.
        scales: anchor, offset, noise, rho and summary of :mod:`torch_softucb.policies.scales`, ``(11, *B)`` float64; None
            unless the policy estimates its scales. ``arm_sums`` are then relative to the anchor.
        offset_width_sq: part of ``width_sq`` that comes from the offset of the scales, ``(K, *B)``; None unless ``scales``
            and ``V`` are kept, because without forgetting no round recomputes ``width_sq``.
        memory: what the policy keeps besides its ridge statistics, ``(*B, M)``.
        noise_key: key of the reward noise, ``()`` int64.
        action_key: key of the action draws, ``()`` int64.
        t: number of rounds played.
    """

    mu_hat: Tensor  # (K, *B)
    width_sq: Tensor  # (K, *B)
    root: Tensor  # (d, d, *B)
    gamma: Tensor  # (*B,)
    running_sums: Tensor | None  # (4, *B)
    V: Tensor | None  # (d, d, *B)
    b: Tensor | None  # (d, *B)
    arm_sums: Tensor | None  # (*B, K, 3) float64
    scales: Tensor | None  # (11, *B) float64
    offset_width_sq: Tensor | None  # (K, *B)
    memory: Tensor  # (*B, M)
    noise_key: Tensor  # () int64
    action_key: Tensor  # () int64
    t: int = 0

    @classmethod
    def fresh(
        cls,
        policy: BanditPolicy,
        problem: BanditProblem,
        features: ArmFeatures,
        *,
        forgets: bool,
        counts_arms: bool = False,
        noise_key: Tensor,  # ()
        action_key: Tensor,  # ()
    ) -> Self:
        """Return the state before the first round, where V = alpha I.

        Args:
            policy: the policy that is going to play.
            problem: the problems, one trajectory each.
            features: features of the problem's arms.
            forgets: whether older observations are discounted, which needs V and b.
            counts_arms: whether ``arm_sums`` are kept.
            noise_key: key of the reward noise.
            action_key: key of the action draws.
        """
        like, batch, d, alpha = problem.means, problem.batch_shape, problem.dim, policy.ridge_alpha
        width_sq = features.norm_sq / alpha  # (K, 1...) or (K, *B)
        width_sq = width_sq.expand(-1, *batch).clone(memory_format=torch.contiguous_format)
        eye = torch.eye(d, dtype=like.dtype, device=like.device).view(d, d, *[1] * len(batch))
        return cls(
            mu_hat=torch.zeros_like(width_sq),
            width_sq=width_sq,
            root=(eye / math.sqrt(alpha)).repeat(1, 1, *batch),
            gamma=like.new_zeros(batch),
            running_sums=like.new_zeros(len(RUNNING_SUMS), *batch) if policy.keeps_sums else None,
            V=(alpha * eye).repeat(1, 1, *batch) if forgets else None,
            b=like.new_zeros(d, *batch) if forgets else None,
            arm_sums=like.new_zeros(*batch, len(width_sq), 3, dtype=torch.float64) if counts_arms else None,
            scales=fresh_scales(tuple(batch), like.device) if isinstance(policy, AutoSoftUCB) else None,
            offset_width_sq=torch.zeros_like(width_sq) if forgets and isinstance(policy, AutoSoftUCB) else None,
            memory=policy.fresh_memory(tuple(batch)).to(like) if policy.remembers else like.new_empty(*batch, 0),
            noise_key=noise_key,
            action_key=action_key,
        )

    @property
    def num_observations(self) -> Tensor:  # ()
        """Number of observations per trajectory, in the dtype of the estimates."""
        return torch.full((), self.t, dtype=self.mu_hat.dtype, device=self.mu_hat.device)

    def tensors(self) -> list[Tensor | None]:
        """Return all tensors in the order of the fields; None where one is not used."""
        return [getattr(self, field.name) for field in fields(self) if field.name != "t"]

    def check_widths(self, t: int) -> None:
        """Raise if a squared width is negative or NaN, naming round ``t``, counted from 0.

        Without forgetting widths only shrink, so an error of an earlier round is still visible, and so is NaN in ``root``.
        With forgetting, the native kernel sets width_sq to -1 where it could not factorise V.

        Raises:
            NumericalError: if any squared width is negative or NaN.
        """
        if not self.width_sq.amin().item() >= 0:
            bad = ~(self.width_sq >= 0)
            raise NumericalError(
                f"rollout: width^2 is negative or NaN for {int(bad.sum())} of {bad.numel()} arms at round {t + 1}; "
                f"{self.width_sq.dtype} is not precise enough for this horizon or these features: use float64"
            )

    def check_estimates(self, t: int) -> None:
        """Raise if an estimate cannot be right, naming round ``t``, counted from 0.

        Raises:
            NumericalError: if a squared width is negative, or an estimate NaN or infinite.
        """
        self.check_widths(t)
        for name in ("mu_hat", "width_sq", "gamma"):
            check_finite_numbers(f"rollout: {name} at round {t + 1}", getattr(self, name))
