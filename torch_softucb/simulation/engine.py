"""Play a policy against a batch of problems, round by round, all trajectories at once."""

import math
from collections.abc import Callable, Iterator
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor

from torch_softucb.checks import check_integer, check_number
from torch_softucb.policies.auto import AutoSoftUCB
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.problems.base import BanditProblem
from torch_softucb.problems.contextual import ContextualProblem
from torch_softucb.rng import normals, stream_key, uniforms
from torch_softucb.simulation._checks import check_compile, check_same_world
from torch_softucb.simulation.arm_features import ArmFeatures
from torch_softucb.simulation.backends import choose_backend
from torch_softucb.simulation.backends.base import Arms, PlaySetup, warn_eager
from torch_softucb.simulation.backends.eager import Eager
from torch_softucb.simulation.backends.kernel import load_kernel
from torch_softucb.simulation.backends.native import Native
from torch_softucb.simulation.contextual_arms import ContextualArms, starting_player
from torch_softucb.simulation.contextual_environment import ContextualEnvironment, with_all_candidates
from torch_softucb.simulation.contextual_state import ContextualState
from torch_softucb.simulation.environment import Environment
from torch_softucb.simulation.fixed_arms import FixedArms
from torch_softucb.simulation.forgetting import ForgettingArms
from torch_softucb.simulation.offers import Offers
from torch_softucb.simulation.refresh import LONGEST, Refresh
from torch_softucb.simulation.rescale import Rescale
from torch_softucb.simulation.saved_state import check_finite_numbers
from torch_softucb.simulation.scales import final_scales
from torch_softucb.simulation.scores import check_has_scores
from torch_softucb.simulation.settle import Settle, found_in
from torch_softucb.simulation.state import PlayState
from torch_softucb.simulation.trajectory import FoundScales, Round

__all__ = ["Round", "Simulation"]

_WIDTHS_EVERY = 16  # eager rounds between checks of the widths of arms that cannot be drawn, or of policies without them


def _block_sizes(rounds: range, recorded: Callable[[int], bool], starts: Callable[[int], bool], longest: int) -> list[int]:
    """Return the lengths of the blocks: 1 for a recorded round, at most ``longest`` for others.

    A new block begins where ``starts`` is true.
    """
    sizes: list[int] = []
    open_block = False
    for t in rounds:
        alone = recorded(t)
        if open_block and not (alone or starts(t)) and sizes[-1] < longest:
            sizes[-1] += 1
        else:
            sizes.append(1)
        open_block = not alone
    return sizes


class PlayOptions(TypedDict, total=False):
    """Options of a :class:`Simulation` that decide what a round computes and where."""

    gradient: bool
    scores: bool
    discount: float
    compile: bool | str
    horizon: int


class Simulation:
    """Trajectories in progress: a policy, the problems it plays, and their :class:`PlayState`.

    One key for the reward noise and one for the action draws are taken from the generators. The n-th random number of a
    trajectory depends on the key and on ``problem.ids`` only.

    Args:
        policy: any policy. Its own statistics are neither read nor changed.
        problem: one problem or a batch; each is one trajectory.
        generator: generator of the action draws, and of the reward noise if ``noise_generator`` is None.
        noise_generator: generator of the reward noise.
        start: what trajectories begin with, as in :func:`torch_softucb.rollout`.
        **options: ``gradient`` (default False), whether rounds carry the terms of Eq. 13; ``scores`` (False), whether they
            carry the ``SCORES``, the parts of the gradient of a whole trajectory; ``discount`` (1.0), weight in (0, 1] that
            earlier observations keep per round; ``compile`` (False), backend of the rounds that are not recorded: False
            (eager), True (torch.compile) or ``"native"`` (C++); ``horizon`` (None), the most rounds that will be
            played, if known: sums for :class:`~torch_softucb.simulation.refresh.Refresh` are kept only if it is due by then.

    Example:
        >>> from torch_softucb import SoftUCBPolicy, synthetic_problem
        >>> problem = synthetic_problem(num_problems=4, generator=torch.Generator().manual_seed(0))
        >>> simulation = Simulation(SoftUCBPolicy(10), problem)
        >>> [round.t for round in simulation.play(3)]
        [0, 1, 2]
        >>> simulation.t
        3
    """

    def __init__(
        self,
        policy: BanditPolicy,
        problem: BanditProblem,
        *,
        generator: torch.Generator | None = None,
        noise_generator: torch.Generator | None = None,
        start: GaussianPrior | BanditPolicy | None = None,
        **options: Unpack[PlayOptions],
    ) -> None:
        like = problem.means
        unknown = options.keys() - PlayOptions.__annotations__.keys()
        if unknown:
            raise TypeError(
                f"Simulation: options are {', '.join(PlayOptions.__annotations__)}, got {', '.join(sorted(unknown))}"
            )
        check_same_world("rollout", "dim", policy.dim, "problem", problem.dim)
        check_same_world("rollout", "dtype", policy.dtype, "problem", like.dtype)
        check_same_world("rollout", "device", policy.device, "problem", like.device)
        check_compile("rollout", options.get("compile", False))
        check_has_scores(policy, options.get("scores", False))
        check_number("rollout", "discount", options.get("discount", 1.0), low=0.0, high=1.0, open_low=True, closed_high=True)
        noise_key = stream_key(generator if noise_generator is None else noise_generator, "noise", like.device)
        action_key = stream_key(generator, "action", like.device)
        self.policy, self._horizon, self._warned = policy, None, False
        self.problem, self.environment = problem, Environment(problem)
        self._offers: Offers | None = None
        self._player: BanditPolicy | None = None
        self.state: Any  # PlayState or ContextualState
        self._refresh: Refresh | Settle
        if "horizon" in options:
            self._horizon = check_integer("Simulation", "horizon", options["horizon"], low=1)
        if isinstance(problem, ContextualProblem) or start is not None or policy.prior is not None:
            self._build_contextual(options, noise_key, action_key, start)
        else:
            self._build_fixed(options, noise_key, action_key)

    def _choose_backend(self, arms: Arms, options: PlayOptions) -> None:
        gradient, scores = options.get("gradient", False), options.get("scores", False)
        setup = PlaySetup(self.policy, self.problem, arms, self.environment, gradient=gradient, scores=scores)
        self.backend, self._recorder = choose_backend(setup, options.get("compile", False)), Eager(setup)

    def _build_contextual(
        self, options: PlayOptions, noise_key: Tensor, action_key: Tensor, start: GaussianPrior | BanditPolicy | None
    ) -> None:
        world, discount = with_all_candidates(self.problem), options.get("discount", 1.0)
        self._player = player = starting_player(self.policy, world, start)
        self.problem, self.environment = world, (environment := ContextualEnvironment(world))
        self._choose_backend(ContextualArms(player, environment, discount=discount), options)
        native = isinstance(self.backend, Native)
        self._refresh = Settle(player, world, discount=discount, native=native)
        self._offers = Offers(world, noise_key, native=native)
        self.state = ContextualState.fresh(player, world, noise_key=noise_key, action_key=action_key)
        self._draws_show_nan = True

    def _build_fixed(self, options: PlayOptions, noise_key: Tensor, action_key: Tensor) -> None:
        policy, problem, discount = self.policy, self.problem, options.get("discount", 1.0)
        features, forgets = ArmFeatures(problem), discount < 1.0
        arms = ForgettingArms(features, policy, discount=discount) if forgets else FixedArms(features, policy)
        self._choose_backend(arms, options)
        if isinstance(policy, AutoSoftUCB):
            kernel = load_kernel().rescale if isinstance(self.backend, Native) else None
            self._refresh = Rescale(problem, features, discount=discount, kernel=kernel)
        else:
            longest = LONGEST if self._horizon is None else self._horizon
            self._refresh = Refresh(problem, features, policy.ridge_alpha, forgets=forgets, horizon=longest)
        self.state = PlayState.fresh(
            policy,
            problem,
            features,
            forgets=forgets,
            counts_arms=self._refresh.needed,
            noise_key=noise_key,
            action_key=action_key,
        )
        # a negative width^2 becomes a NaN width, NaN probabilities and an error in the same round, and it stays negative
        self._draws_show_nan = not (forgets or policy.normals_per_decision)

    @property
    def t(self) -> int:
        """Number of rounds played."""
        return int(self.state.t)

    @property
    def present_means(self) -> Tensor:  # (*B, K)
        """Mean rewards of the current round."""
        return self.environment.present_means

    @property
    def present_mask(self) -> Tensor | None:  # (K,) or (*B, K)
        """Arms that may be played in the current round; None if all."""
        return self.environment.mask

    @property
    def found_scales(self) -> FoundScales | None:
        """Scales that a policy that estimates them has found so far; None for other policies."""
        if isinstance(self.state, ContextualState):
            return found_in(self._player, self.state) if isinstance(self._player, AutoSoftUCB) else None
        return None if self.state.scales is None else final_scales(self.state.scales)

    @torch.no_grad()
    def play(
        self, rounds: int, *, recorded: Callable[[int], bool] = lambda t: True, stretch: int | None = None
    ) -> Iterator[Round]:
        """Play the next rounds. beta may change between them.

        A yielded round's tensors may be views of the state, which the next round overwrites.

        Args:
            rounds: number of rounds to play.
            recorded: whether the decision of round ``t`` is wanted. Recorded rounds run eagerly, the others on the backend.
            stretch: largest number of rounds per block; None leaves it to the backend.

        Yields:
            Recorded rounds one by one, others in blocks.

        Raises:
            NumericalError: if beta, the state, the problem's means or a regret is NaN or infinite.
        """
        check_integer("Simulation.play", "rounds", rounds, low=0)
        state, end = self.state, self.t + rounds
        if self._horizon is not None and end > self._horizon:
            raise ValueError(
                f"Simulation.play: the simulation was built for {self._horizon} rounds, got {self.t} + {rounds}; "
                "build it with a larger horizon"
            )
        state.check_finite()
        check_finite_numbers("rollout: the mean rewards of the problem", self.environment.means)
        self._warn_if_mostly_recorded(recorded, range(state.t, end))
        numbers_per_round = max(1, self.problem.ids.numel() * max(1, self.policy.normals_per_decision))
        rounds_at_once = self.backend.rounds_at_once(numbers_per_round)
        if self._offers is not None:
            rounds_at_once = self._offers.rounds_at_once
        longest = min(limit for limit in (stretch, self.backend.max_rounds, rounds_at_once) if limit is not None)
        while state.t < end:
            window = range(state.t, min(state.t + rounds_at_once, end))
            sizes = _block_sizes(window, recorded, self._refresh.due, longest)
            noise, draws = self._noise(state.t, len(window)), self._draws(state.t, len(window))
            offers = [None] * len(sizes) if self._offers is None else self._offers.blocks(state.t, sizes)
            blocks = zip(noise.split_with_sizes(sizes), draws.split_with_sizes(sizes), offers, strict=True)
            for number, (block_noise, block_draws, offered) in enumerate(blocks):
                self._refresh.apply(state)
                if isinstance(self.environment, ContextualEnvironment) and offered is not None:
                    self.environment.offer(*offered)
                self.environment.apply_drift(state.t)
                backend = self._recorder if recorded(state.t) else self.backend
                if number % _WIDTHS_EVERY == 0 or not (self._draws_show_nan and isinstance(backend, Eager)):
                    state.check_widths(state.t)
                if isinstance(backend, Native):  # which adds to the sums itself
                    self._refresh.collect(state)
                for played in backend.play(state, block_noise, block_draws):
                    if not isinstance(backend, Eager):  # which draws arms only from finite probabilities
                        self._check_regret(played)
                    yield played
                    self._refresh.note(played)
            state.check_estimates(state.t - 1)
            self._refresh.collect(state)

    def _check_regret(self, played: Round) -> None:
        if not math.isfinite(played.regret.sum().item()):
            self.state.check_estimates(played.t)  # if they are the cause, name them
            check_finite_numbers(f"rollout: the regret from round {played.t + 1} on", played.regret)

    def _warn_if_mostly_recorded(self, recorded: Callable[[int], bool], rounds: range) -> None:
        if self._warned or isinstance(self.backend, Eager):
            return
        if 2 * sum(map(recorded, rounds)) > len(rounds):
            self._warned = True
            warn_eager(
                "more than half of the rounds are recorded, and recorded rounds do not run on the requested backend; "
                "record fewer rounds (record_every), or use compile=False"
            )

    def _noise(self, start: int, count: int) -> Tensor:  # (count, *B)
        return self.environment.noise(self.state.noise_key, start=start, count=count)

    def _draws(self, start: int, count: int) -> Tensor:  # (count, *B) uniform float64, or (count, *B, m) standard normal
        key, ids, dtype = self.state.action_key, self.problem.ids, self.problem.means.dtype
        width = self.policy.normals_per_decision
        if not width:
            return uniforms(key, ids, start=start, count=count, dtype=torch.float64)
        numbers = normals(key, ids, start=start * width, count=count * width, dtype=dtype)
        return numbers.view(count, width, *ids.shape).movedim(1, -1)

    def state_dict(self) -> dict[str, Tensor | int]:
        """Return a copy of the state: all that :meth:`play` needs to continue, given the same policy and problem."""
        self._refresh.collect(self.state)
        saved: dict[str, Tensor | int] = self.state.state_dict()
        return saved

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state_dict` of a simulation of the same policy, problem and discount."""
        if self._player is not None and isinstance(self.problem, ContextualProblem):
            self.state.load(state, self._player, self.problem)
        else:
            self.state.load_state_dict(state)
        self._refresh.forget_plays()
