"""Estimates of fixed arms when older observations count less, for rewards that drift."""

import math

import torch
from torch import Tensor

from torch_softucb.functional.residuals import _residual_sum
from torch_softucb.functional.ridge import _ridge_estimate, _ridge_root
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.simulation.arm_features import ArmFeatures
from torch_softucb.simulation.fixed_arms import FixedArms
from torch_softucb.simulation.scales import RHO, base_of
from torch_softucb.simulation.state import PlayState


class ForgettingArms(FixedArms):
    """Discount earlier observations, then update the estimates in a :class:`PlayState`.

    Every round, V <- rho V + (1 - rho) alpha I and b <- rho b, as in ``policy.update(discount=)``. The change of V has full
    rank, so every round factorises V: O(d^3 + K d^2).

    Args:
        features: features of the arms.
        policy: the policy that plays; its ridge weight is alpha.
        discount: rho in (0, 1), the weight that earlier observations keep per round.
    """

    def __init__(self, features: ArmFeatures, policy: BanditPolicy, *, discount: float) -> None:
        super().__init__(features, policy)
        self.discount, self.ridge_alpha = discount, policy.ridge_alpha
        given, d = features.given, features.given.shape[-1]
        eye = torch.eye(d, dtype=given.dtype, device=given.device).view(d, d, *[1] * features.batch_dims)
        self.restored_ridge = (1 - discount) * self.ridge_alpha * eye  # (d, d, 1...) what V regains per round

    def update(self, state: PlayState, arm: Tensor, reward: Tensor) -> tuple[Tensor, Tensor]:  # (*B,), (*B,)
        """Discount the statistics, then add one reward per trajectory."""
        assert state.V is not None
        assert state.b is not None
        x, given = self.features.gather(arm), reward
        ridge: Tensor = self.restored_ridge
        base = None
        if state.scales is not None:
            ridge = ridge * state.scales[RHO].to(ridge.dtype)
            base = base_of(state.scales).to(reward.dtype)
            reward = reward - base
        state.V.mul_(self.discount).add_(ridge).add_(x.unsqueeze(1) * x.unsqueeze(0))
        state.b.mul_(self.discount).add_(x * reward)
        root, b = _ridge_root(state.V.movedim((0, 1), (-2, -1))), state.b.movedim(0, -1)
        mu_hat, width = _ridge_estimate(self.features.given, root, b)
        state.mu_hat.copy_(mu_hat.movedim(-1, 0) if base is None else mu_hat.movedim(-1, 0) + base)
        state.width_sq.copy_(width.square().movedim(-1, 0))
        if state.offset_width_sq is not None:
            state.width_sq.add_(state.offset_width_sq)
        state.root.copy_(root.movedim((-2, -1), (0, 1)))
        if state.running_sums is not None:
            state.running_sums.copy_(self._sums(state.running_sums, root, b, reward))
        return x, given

    def _sums(self, old: Tensor, root: Tensor, b: Tensor, reward: Tensor) -> Tensor:  # (4, *B), in the order of RUNNING_SUMS
        count, squares = self.discount * old[0] + 1, self.discount * old[3] + reward.square()
        log_det = -2 * root.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)
        log_det = log_det - b.shape[-1] * math.log(self.ridge_alpha)
        return torch.stack((count, _residual_sum(squares, root, b), log_det, squares))
