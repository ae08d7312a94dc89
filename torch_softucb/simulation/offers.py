"""Draw what is offered in a block of rounds, by the kernel where it can."""

import torch
from torch import Tensor

from torch_softucb.problems.candidate_draws import allowed_items, draw_candidates, draw_delays
from torch_softucb.problems.contextual import ContextualProblem
from torch_softucb.rng import derived_key, trajectory_seed
from torch_softucb.simulation.backends.kernel import load_kernel

_SETS, _ROUNDS = 2**20, 64  # candidates in memory at once, and rounds they are drawn for at most


class Offers:
    """Candidates and delays of the rounds of a simulation; the n-th round has the same ones on all backends.

    Args:
        problem: the problems.
        noise_key: key of the reward noise, from which those of candidates and delays are derived.
        native: draw candidates in the kernel.
    """

    def __init__(self, problem: ContextualProblem, noise_key: Tensor, *, native: bool) -> None:
        self.problem, self._delay_key = problem, derived_key(noise_key, "delay")
        self._key = derived_key(noise_key, "candidates")
        plain = problem.sets is None and problem.weights is None and problem.num_candidates is not None
        self._kernel = load_kernel().candidates if native and plain else None
        self._rows: tuple[Tensor, Tensor, Tensor | None] | None = None

    @property
    def rounds_at_once(self) -> int:
        """Number of rounds for which candidates are drawn at once."""
        numbers = max(1, self.problem.batch_shape.numel() * self.problem.slots)
        return min(_ROUNDS, max(1, _SETS // numbers))

    def draw(self, start: int, count: int) -> tuple[Tensor, Tensor | None]:  # (count, *B, K), (count, *B)
        """Return candidates and, unless the delay is fixed, delays of rounds ``start`` to ``start + count - 1``."""
        problem = self.problem
        random = problem.fixed_delay is None
        delays = draw_delays(problem, self._delay_key, start=start, count=count) if random else None
        if self._kernel is None:
            return draw_candidates(problem, self._key, start=start, count=count), delays
        if self._rows is None:
            order, available = allowed_items(problem)
            seeds = trajectory_seed(self._key, problem.ids).flatten().contiguous()
            order = None if order is None else order.reshape(-1, problem.num_arms).contiguous()
            self._rows = seeds, available.flatten().contiguous(), order
        seeds, available, order = self._rows
        out = torch.empty(count, len(seeds), problem.slots, dtype=torch.int32)
        self._kernel(seeds, available, order, problem.num_arms, start, out)
        return out.view(count, *problem.batch_shape, problem.slots), delays

    def blocks(self, start: int, sizes: list[int]) -> list[tuple[Tensor, Tensor | None]]:
        """Return what :meth:`draw` does for each of several blocks of rounds, the first of which begins with ``start``."""
        candidates, delays = self.draw(start, sum(sizes))
        late = [None] * len(sizes) if delays is None else delays.split_with_sizes(sizes)
        return [*zip(candidates.split_with_sizes(sizes), late, strict=True)]
