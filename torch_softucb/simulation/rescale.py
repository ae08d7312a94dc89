"""Estimate the scales of a policy between the rounds of a simulation, and recompute its estimates of the arms."""

from collections.abc import Callable

import torch
from torch import Tensor

from torch_softucb.functional.ridge import _ridge_estimate, _ridge_root, _ridge_solve
from torch_softucb.functional.scales import RegressionSums, _evidence_scales, _offset_width
from torch_softucb.problems.base import BanditProblem
from torch_softucb.simulation.arm_features import ArmFeatures
from torch_softucb.simulation.refresh import Refresh
from torch_softucb.simulation.scales import ANCHOR, Schedule, base_of, found_scales, note_kept
from torch_softucb.simulation.state import PlayState


class Rescale(Refresh):
    """Estimate offset, noise and prior scale at geometric times, from the plays and rewards of each arm.

    All trajectories are due at the same rounds, those at which the policy itself would estimate its scales. The estimates of
    the arms are then recomputed in float64, so rounding errors do not add up either.

    Args:
        problem: the problems.
        features: features of their arms.
        discount: weight that earlier observations keep per round.
        kernel: native version of the computation; by default it is done with torch.
    """

    def __init__(
        self,
        problem: BanditProblem,
        features: ArmFeatures,
        *,
        discount: float,
        kernel: Callable[..., None] | None = None,
    ) -> None:
        super().__init__(problem, features, 1.0)
        self.needed, self.discount, self.schedule, self.kernel = True, discount, Schedule(discount), kernel

    def due(self, t: int) -> bool:
        """Return whether the scales are estimated before round ``t``, counted from 0."""
        return self.schedule.due(t)

    def collect(self, state: PlayState) -> None:
        """Add the plays that were noted to ``state.arm_sums``, relative to the anchor; earlier ones are discounted."""
        assert state.scales is not None
        anchor = state.scales[ANCHOR]
        self._plays = [(arm, reward.double() - anchor) for arm, reward in self._plays]
        if self.discount == 1.0:
            super().collect(state)
            return
        plays, self._plays = self._plays, []
        for play in plays:
            assert state.arm_sums is not None
            state.arm_sums.mul_(self.discount)
            self._plays = [play]
            super().collect(state)

    def apply(self, state: PlayState) -> None:
        """Estimate the scales before round ``state.t`` if they are due."""
        if not self.due(state.t):
            return
        assert state.arm_sums is not None
        assert state.scales is not None
        self.collect(state)
        if state.t == 1:  # the first reward is the anchor
            state.scales[ANCHOR] = state.arm_sums[..., 1].sum(-1)
            state.arm_sums[..., 1:] = 0
        if self.kernel is not None:
            self.kernel(
                self.features.layout,
                state.arm_sums,
                state.scales,
                state.mu_hat,
                state.width_sq,
                state.root,
                state.V,
                state.b,
                state.offset_width_sq,
            )
            note_kept(state.scales, state.t)
            return
        arms = self.features.given.double()
        counts, sums, squares = state.arm_sums.unbind(-1)  # (*B, K)
        gram = (arms * counts.unsqueeze(-1)).mT @ arms
        sum_x, moment = (_weighted(arms, value) for value in (counts, sums))
        weight = counts.sum(-1)
        found = _evidence_scales(RegressionSums(weight, sum_x, sums.sum(-1), gram, moment, squares.sum(-1)), pooled=False)
        state.scales.copy_(found_scales(state.scales[ANCHOR], weight, state.t, found))
        V = gram + torch.diag_embed(found.rho.unsqueeze(-1).expand_as(moment))
        root, b = _ridge_root(V), moment - found.offset.unsqueeze(-1) * sum_x
        mu_hat, width = _ridge_estimate(arms, root, b)
        known = found.noise_std.isfinite().unsqueeze(-1)
        base = base_of(state.scales).unsqueeze(-1)
        state.mu_hat.copy_((base + torch.where(known, mu_hat, torch.zeros_like(mu_hat))).movedim(-1, 0))
        of_offset = _offset_width(arms, _ridge_solve(root, sum_x), found.offset_variance).square()
        state.width_sq.copy_((width.square() + of_offset).movedim(-1, 0))
        state.root.copy_(root.movedim((-2, -1), (0, 1)))
        if state.V is not None and state.b is not None:
            state.V.copy_(V.movedim((-2, -1), (0, 1)))
            state.b.copy_(b.movedim(-1, 0))
        if state.offset_width_sq is not None:
            state.offset_width_sq.copy_(of_offset.movedim(-1, 0))


def _weighted(arms: Tensor, weights: Tensor) -> Tensor:  # (K, d) or (*B, K, d), (*B, K) -> (*B, d)
    return (weights.unsqueeze(-2) @ arms).squeeze(-2)
