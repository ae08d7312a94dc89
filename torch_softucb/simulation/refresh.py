"""Recompute the estimates of fixed arms from sums, before the rounding errors of many updates add up."""

import torch
from torch import Tensor

from torch_softucb.functional.ridge import _ridge_estimate, _ridge_root
from torch_softucb.problems.base import BanditProblem
from torch_softucb.simulation.arm_features import ArmFeatures
from torch_softucb.simulation.state import PlayState
from torch_softucb.simulation.trajectory import Round

_ERROR = 2.0**-12  # largest t |x|^2 / alpha times eps that is left alone; the relative error of a width is a third of it
_PERIOD = 1024  # rounds between refreshes, after those at powers of 2
_FIRST = 64  # rounds after each of which a trajectory is recomputed if a single round exceeds the limit
LONGEST = 2**20  # rounds of a simulation whose horizon is not known
_NUMBERS = 2**20  # features that are converted to float64 at once


class Refresh:
    """Decide when the estimates of which trajectories are recomputed, and recompute them in float64.

    With fixed arms V = alpha I + sum_k n_k x_k x_k^T and b = sum_k s_k x_k, where arm k was played n_k times with rewards
    of sum s_k. These sums are exact, whereas the rank-one updates of width^2 subtract from a number that starts at
    |x|^2 / alpha and ends near 1 / t: its relative error is about eps t |x|^2 / alpha. A trajectory is recomputed once this
    exceeds a limit, before rounds 1, 2, 4, ..., 1024, 2048, 3072, ...; where one round is enough to exceed it, also before
    each of the first 64. This depends on the round and on the trajectory's features, never on the batch or the backend.

    Args:
        problem: the problems.
        features: features of their arms.
        ridge_alpha: ridge weight alpha.
        forgets: whether older observations are discounted; the estimates are then recomputed every round anyway.
        horizon: number of rounds within which a refresh must be due for sums to be kept.
    """

    def __init__(
        self,
        problem: BanditProblem,
        features: ArmFeatures,
        ridge_alpha: float,
        *,
        forgets: bool = False,
        horizon: int = LONGEST,
    ) -> None:
        self.features, self.ridge_alpha = features, ridge_alpha
        ratio = features.norm_sq.amax(0).double() / ridge_alpha
        self._ratio = ratio.expand(problem.batch_shape)  # (*B,) largest |x|^2 / alpha
        self._limit = _ERROR / torch.finfo(problem.means.dtype).eps
        self._largest = float(self._ratio.amax())
        self._plays: list[tuple[Tensor, Tensor]] = []  # arms and rewards that are not in the sums yet
        self.needed = not forgets and self._largest * horizon >= self._limit

    def note(self, played: Round) -> None:
        """Remember the arms and rewards of a round until :meth:`collect` adds them to the sums: many at once are faster."""
        if self.needed and played.arm is not None and played.reward is not None:
            self._plays.append((played.arm, played.reward))

    def collect(self, state: PlayState) -> None:
        """Add the plays that were noted to ``state.arm_sums``."""
        if not self._plays:
            return
        assert state.arm_sums is not None
        arm, reward = (torch.stack(each).view(len(each), -1) for each in zip(*self._plays, strict=True))  # (n, B)
        self._plays.clear()
        counts, sums, squares = state.arm_sums.view(-1, 3).unbind(-1)  # (B K,)
        first = torch.arange(0, len(counts), state.arm_sums.shape[-2], device=arm.device)
        place = (arm + first).flatten()  # stacked and added in the order of the memory, which is faster
        reward = reward.to(sums.dtype).flatten()
        counts.scatter_add_(0, place, counts.new_ones(()).expand(len(place)))
        sums.scatter_add_(0, place, reward)
        squares.scatter_add_(0, place, reward.square())

    def forget_plays(self) -> None:
        """Drop the plays that were noted."""
        self._plays.clear()

    def due(self, t: int) -> bool:
        """Return whether any trajectory is recomputed before round ``t``, counted from 0."""
        if not (self.needed and t > 0 and self._largest * t >= self._limit):
            return False
        return t & (t - 1) == 0 or t % _PERIOD == 0 or (t <= _FIRST and self._largest >= self._limit)

    def apply(self, state: PlayState) -> None:
        """Recompute the estimates of the trajectories that are due before round ``state.t``; return at once if none is."""
        if not self.due(state.t):
            return
        assert state.arm_sums is not None
        self.collect(state)
        counts, sums, _ = state.arm_sums.view(-1, *state.arm_sums.shape[-2:]).unbind(-1)  # (B, K)
        regular = state.t & (state.t - 1) == 0 or state.t % _PERIOD == 0
        rows = (self._ratio.flatten() * (state.t if regular else 1) >= self._limit).nonzero().squeeze(-1)
        own = None if self.features.shared else self.features.given.flatten(0, -3)  # (B, K, d)
        at_once = max(1, _NUMBERS // self.features.given.shape[-2:].numel())
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            arms = self.features.given.double() if own is None else own[part].double()
            mu_hat, width, root = self._solve(arms, counts[part], sums[part])
            for field, value in ((state.mu_hat, mu_hat.T), (state.width_sq, width.square().T)):
                field.view(len(field), -1)[:, part] = value.to(field.dtype)
            own_root = state.root.view(*state.root.shape[:2], -1)
            own_root[:, :, part] = root.movedim(0, -1).to(own_root.dtype)

    def _solve(
        self,
        arms: Tensor,  # (K, d) or (n, K, d)
        counts: Tensor,  # (n, K)
        sums: Tensor,  # (n, K)
    ) -> tuple[Tensor, Tensor, Tensor]:  # (n, K), (n, K), (n, d, d)
        V = (arms * counts.unsqueeze(-1)).mT @ arms
        V.diagonal(dim1=-2, dim2=-1).add_(self.ridge_alpha)
        root = _ridge_root(V)
        mu_hat, width = _ridge_estimate(arms, root, (sums.unsqueeze(-2) @ arms).squeeze(-2))
        return mu_hat, width, root
