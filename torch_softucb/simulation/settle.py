"""Estimate the scales of a policy after the kernel has added observations to its statistics."""

import torch
from torch import Tensor

from torch_softucb.policies.auto import AutoSoftUCB
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.prior_scales import summarised
from torch_softucb.policies.rows import pack
from torch_softucb.policies.scales import estimated, unpack_memory
from torch_softucb.problems.contextual import ContextualProblem
from torch_softucb.simulation.contextual_state import ContextualState
from torch_softucb.simulation.scales import Schedule
from torch_softucb.simulation.trajectory import FoundScales, Round


class Settle:
    """What happens between blocks of rounds with changing candidates.

    Eager rounds use the policy's own update, which estimates the scales itself. The kernel only adds to the sums, so a block
    ends where the scales are due.

    Args:
        player: the policy that plays.
        problem: the problems.
        discount: weight that earlier observations keep per update.
        native: whether the kernel plays.
    """

    needed = False

    def __init__(self, player: BanditPolicy, problem: ContextualProblem, *, discount: float, native: bool) -> None:
        self.player = player if native and isinstance(player, AutoSoftUCB) else None
        self.delay = problem.fixed_delay
        counts = player.state.num_observations
        self.all_alike = self.delay is not None and not bool(counts.any())
        self._schedule = Schedule(discount)

    def due(self, t: int) -> bool:
        """Return whether a block begins with round ``t`` because scales may be due."""
        if self.player is None:
            return False
        return not self.all_alike or self._schedule.due(max(0, t - (self.delay or 0)))

    def apply(self, state: ContextualState) -> None:
        """Estimate the scales of the trajectories for which they are due."""
        if self.player is not None:
            state.statistics = with_due_scales(self.player, state.statistics)

    def collect(self, state: ContextualState) -> None:
        """Do the same as :meth:`apply`."""
        self.apply(state)

    def note(self, played: Round) -> None:
        """Nothing: there are no sums to keep."""

    def forget_plays(self) -> None:
        """Nothing, likewise."""


def with_due_scales(player: AutoSoftUCB, statistics: Tensor) -> Tensor:  # (*B, size) -> (*B, size)
    """Estimate the scales of the bandits that are due, each alone; for statistics that the kernel has added to."""
    layout = player.layout
    rows = statistics.reshape(-1, layout.size)
    memory = unpack_memory(rows[:, layout.memory])
    due = ((memory.total > 0) & (memory.total >= memory.due)).nonzero().squeeze(-1)
    if not len(due):
        return statistics
    estimate = estimated if player.prior is None else summarised
    state = estimate(layout.unpack(rows[due].unsqueeze(1)), memory.total[due])
    return rows.index_copy(0, due, pack(state).squeeze(1)).view_as(statistics)


def found_in(player: AutoSoftUCB, state: ContextualState) -> FoundScales:
    """Return the scales that the trajectories have found; NaN where the noise is not known."""
    player._buffers["statistics"] = state.statistics
    values = (player.offset, player.noise_std, player.prior_std)
    batch = state.statistics.shape[:-1]
    unknown = torch.full(batch, torch.nan, dtype=torch.float64, device=state.statistics.device)
    return FoundScales(*(unknown if value is None else value.double().expand(batch) for value in values))
