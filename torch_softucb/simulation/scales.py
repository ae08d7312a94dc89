"""Scales of a policy that estimates offset, noise and prior from the rewards, as part of a simulation's state."""

import torch
from torch import Tensor

from torch_softucb.functional.scales import Scales
from torch_softucb.policies.decision import Estimate
from torch_softucb.policies.scales import GROWTH, SUMMARY
from torch_softucb.simulation.trajectory import FoundScales

ANCHOR, OFFSET, NOISE_STD, RHO, FIRST_SUMMARY = range(5)  # the rows of PlayState.scales; the summary takes all others
NUM_SCALES = FIRST_SUMMARY + len(SUMMARY)
_KEPT, _WEIGHT = (FIRST_SUMMARY + SUMMARY.index(name) for name in ("kept", "num_observations"))


def fresh_scales(batch: tuple[int, ...], device: torch.device) -> Tensor:  # (11, *batch)
    """Return the scales before the first reward."""
    scales = torch.zeros(NUM_SCALES, *batch, dtype=torch.float64, device=device)
    for row in (RHO, *(FIRST_SUMMARY + SUMMARY.index(name) for name in ("num_rows", "shrinkage", "kept"))):
        scales[row] = 1.0
    return scales


def found_scales(anchor: Tensor, weight: Tensor, t: int, found: Scales) -> Tensor:  # (*B,), (*B,) -> (11, *B)
    """Return the rows for scales that were estimated from rewards relative to an anchor."""
    noise = found.noise_std.nan_to_num(nan=0.0)
    one = torch.ones_like(weight)
    summary = (weight, one, found.explained, found.log_rho, found.log_det, found.shrinkage, weight / t)
    return torch.stack((anchor, found.offset, noise, found.rho, *summary))


def note_kept(scales: Tensor, t: int) -> None:  # (11, *B)
    """Write the share of the ``t`` observations that is left, for a kernel that does not know t."""
    scales[_KEPT] = scales[_WEIGHT] / t


def noise_unit(scales: Tensor) -> Tensor:  # (11, *B) -> (*B,)
    """Return the noise, the unit of widths; 1 while it is not known."""
    return torch.where(scales[NOISE_STD] > 0, scales[NOISE_STD], torch.ones_like(scales[NOISE_STD]))


def base_of(scales: Tensor) -> Tensor:  # (11, *B) -> (*B,)
    """Return the offset of the model, in absolute terms."""
    return scales[ANCHOR] + scales[OFFSET]


def scaled_estimate(estimate: Estimate, scales: Tensor) -> Estimate:  # (11, *B)
    """Return an estimate of absolute means and plain widths in the units of the policy, as its ``forward`` has it."""
    like = estimate.mu_hat
    base, unit, known = (value.unsqueeze(-1) for value in (base_of(scales), noise_unit(scales), scales[NOISE_STD] > 0))
    return estimate._replace(
        mu_hat=torch.where(known, like - base.to(like.dtype), torch.zeros_like(like)),
        width=estimate.width * unit.to(like.dtype),
        offset=base.squeeze(-1).to(like.dtype),
        summary=scales[FIRST_SUMMARY:].movedim(0, -1).to(like.dtype),
    )


def final_scales(scales: Tensor) -> FoundScales:  # (11, *B)
    """Return the scales in the units of rewards and theta; NaN where the noise is not known."""
    noise, rho = scales[NOISE_STD], scales[RHO]
    unknown = torch.full_like(noise, torch.nan)
    values = (base_of(scales), noise, noise / rho.sqrt())
    return FoundScales(*(torch.where(noise > 0, value, unknown) for value in values))


class Schedule:
    """Rounds before which the scales are estimated, the same as in :func:`torch_softucb.policies.scales.next_due`.

    Args:
        discount: weight that earlier observations keep per round.

    Example:
        >>> schedule = Schedule(1.0)
        >>> [t for t in range(20) if schedule.due(t)]
        [1, 2, 3, 4, 5, 6, 7, 9, 11, 14, 18]
    """

    def __init__(self, discount: float) -> None:
        self.discount = discount
        self._times, self._next, self._count, self._weight = {1}, 1, 0, 0.0

    def due(self, t: int) -> bool:
        """Return whether the scales are estimated before round ``t``, after ``t`` observations."""
        while self._count < t:
            self._count, self._weight = self._count + 1, self.discount * self._weight + 1
            if self._count == self._next:
                self._times.add(self._count)
                self._next = self._count + max(1, int(GROWTH * self._weight))
        return t in self._times
