"""The state of trajectories whose candidates change: the policy's own statistics, and rewards that are on their way."""

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from torch_softucb.errors import NumericalError
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.state_checks import check_statistics
from torch_softucb.problems.contextual import ContextualProblem
from torch_softucb.simulation.saved_state import SimulationState, check_finite_numbers, check_saved_state

WAITING = ("item", "reward", "due")  # the columns of ContextualState.waiting


@dataclass(eq=False)
class ContextualState(SimulationState):
    """Everything about a batch of trajectories with changing candidates that a round reads and writes.

    Attributes:
        statistics: packed statistics of the policy, one row per trajectory, ``(*B, size)`` float64; the layout is that of
            ``policy.statistics``.
        waiting: rewards of the last D + 1 rounds with their items and the round before which they arrive,
            ``(*B, D + 1, 3)`` float64, see ``WAITING``; the reward of round t is in row t modulo D + 1. None without delays.
        mu_hat: largest estimated mean of the last block of rounds, ``(*B,)``, for checks.
        width: largest width, likewise.
        noise_key: key of the reward noise, ``()`` int64; candidates and delays have keys derived from it.
        action_key: key of the action draws, ``()`` int64.
        t: number of rounds played.
    """

    statistics: Tensor  # (*B, size) float64
    waiting: Tensor | None  # (*B, D + 1, 3) float64
    mu_hat: Tensor  # (*B,)
    width: Tensor  # (*B,)
    noise_key: Tensor  # () int64
    action_key: Tensor  # () int64
    t: int = 0

    @classmethod
    def fresh(
        cls,
        player: BanditPolicy,
        problem: ContextualProblem,
        *,
        noise_key: Tensor,  # ()
        action_key: Tensor,  # ()
    ) -> Self:
        """Return the state before the first round.

        Args:
            player: policy with the statistics to start from, a row per trajectory.
            problem: the problems, one trajectory each.
            noise_key: key of the reward noise.
            action_key: key of the action draws.
        """
        batch, like = problem.batch_shape, problem.means
        waiting = None
        if problem.delay is not None:
            shape = (*batch, problem.max_delay + 1, len(WAITING))
            waiting = torch.zeros(shape, dtype=torch.float64, device=like.device)
        zero = like.new_zeros(batch)
        return cls(player.statistics.clone(), waiting, zero, zero.clone(), noise_key, action_key)

    @property
    def num_observations(self) -> Tensor:  # (*B,)
        """Number of observations per trajectory, in the dtype of the estimates."""
        return self.statistics[..., -2].to(self.mu_hat.dtype)

    def check_widths(self, t: int) -> None:
        """Raise NumericalError if a width is negative or NaN, naming round ``t``, counted from 0."""
        if not self.width.amin().item() >= 0:
            bad = int((~(self.width >= 0)).sum())
            raise NumericalError(
                f"rollout: V is not positive definite, or a width is NaN, in {bad} of {self.width.numel()} trajectories at "
                f"round {t + 1}; the features differ too much in scale: normalise them"
            )

    def check_estimates(self, t: int) -> None:
        """Raise NumericalError if an estimate cannot be right, naming round ``t``, counted from 0."""
        self.check_widths(t)
        for name in ("mu_hat", "width", "statistics"):
            check_finite_numbers(f"rollout: {name} at round {t + 1}", getattr(self, name))

    def load(self, saved: dict[str, Any], player: BanditPolicy, problem: ContextualProblem) -> None:
        """Copy every field from ``saved``, after checking that the policy and the problem can have led to it."""
        where = "Simulation.load_state_dict"
        check_saved_state(where, saved, self.state_dict())
        check_statistics(where, player, saved["statistics"])
        if self.waiting is not None:
            item = saved["waiting"][..., WAITING.index("item")]
            if not bool(((item >= 0) & (item < problem.num_arms)).all()):
                raise ValueError(
                    f"{where}: items that wait for a reward must be below {problem.num_arms}; the file is damaged"
                )
        if problem.fixed_delay is not None:
            played = max(0, saved["t"] - problem.fixed_delay) - max(0, self.t - problem.fixed_delay)
            if not torch.equal(saved["statistics"][..., -2], self.statistics[..., -2] + played):
                raise ValueError(
                    f"{where}: the numbers of observations do not fit t = {saved['t']}; load it into a simulation with the "
                    "same start"
                )
        self.load_state_dict(saved)
