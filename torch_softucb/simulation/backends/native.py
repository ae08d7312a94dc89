"""Play whole blocks of rounds in one call of a C++ kernel (rounds.cpp), many times faster than eager rounds on a CPU.

It supports policies that return a :class:`~torch_softucb.policies.decision.NativeRule`.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.errors import NumericalError
from torch_softucb.policies._checks import check_beta_fits, check_offered
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import NativeRule
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.simulation.backends.base import Backend, PlaySetup
from torch_softucb.simulation.backends.kernel import load_kernel
from torch_softucb.simulation.fixed_arms import FixedArms
from torch_softucb.simulation.saved_state import SimulationState, check_finite_numbers
from torch_softucb.simulation.scales import noise_unit
from torch_softucb.simulation.state import PlayState
from torch_softucb.simulation.trajectory import SCORES, GradientTerms, Round

LANES = 16  # trajectories per tile, as in rounds.cpp
_LARGE = 2**14  # K * d above which a tile that is not full costs more than eager rounds
# A call copies the state of every trajectory in and out, so it should play many rounds: 64, if their random numbers fit.
_NUMBERS_AT_ONCE, _ROUNDS_AT_ONCE, _MAX_NUMBERS = 2**18, 64, 2**21


class KernelProblem(NamedTuple):
    """The problem as the kernel takes it, in the order of ``ProblemField`` in rounds.cpp; all tensors contiguous."""

    arms: Tensor  # (K, d) shared, or (d, K, *B)
    means: Tensor  # (K, *B) of round 0 if rewards drift
    best: Tensor  # (*B,)
    mask: Tensor | None  # (K, *B) bool
    rotated_means: Tensor | None  # (K, *B), if rewards drift
    drift_rate: Tensor | None  # (*B,), likewise


class KernelSettings(NamedTuple):
    """Numbers that the kernel takes, in the order of ``Setting`` in rounds.cpp."""

    odds: float  # delta / (1 - delta)
    smoothing: float  # kappa of the smooth coldness
    epsilon: float  # probability shared by all allowed arms (greedy)
    discount: float
    ridge_alpha: float


class KernelOutputs(NamedTuple):
    """Tensors that the kernel fills, in the order of ``OutputField`` in rounds.cpp."""

    regret: Tensor  # (n, *B)
    terms: Tensor | None  # (3, *B) GradientTerms, added to
    scores: Tensor | None  # (11, n, *B) SCORES


def _kernel_problem(setup: PlaySetup) -> KernelProblem:
    problem, environment = setup.problem, setup.environment
    batch, mask, means = problem.batch_shape, problem.mask, environment.means
    rotated_means = drift_rate = None
    if mask is not None:
        mask = mask.expand(*batch, -1).movedim(-1, 0).contiguous()
    if problem.rotated_means is not None:
        means, rotated_means = (each.movedim(-1, 0).contiguous() for each in (problem.means, problem.rotated_means))
        drift_rate = torch.as_tensor(problem.drift_rate, dtype=means.dtype, device=means.device).expand(batch).contiguous()
    assert isinstance(setup.arms, FixedArms)
    return KernelProblem(setup.arms.features.layout, means, environment.best, mask, rotated_means, drift_rate)


def is_steady(policy: BanditPolicy) -> bool:
    """Return whether beta is a module that changes only when the policy estimates its scales."""
    module = getattr(policy, "beta_module", None)
    return module is not None and module.is_steady


class Native(Backend):
    """Backend that plays blocks of rounds per call; single rounds if beta depends on the estimates, as torch computes it."""

    def __init__(self, setup: PlaySetup) -> None:
        self.setup = setup
        self.max_rounds = 1 if setup.policy.needs_estimate and not is_steady(setup.policy) else None
        self._problem, self._kernel = _kernel_problem(setup), load_kernel().op

    @classmethod
    def unsupported(cls, setup: PlaySetup) -> str | None:
        """Return why the kernel is not used, or None.

        Raises:
            ValueError: if the policy has no kernel, or the problem is not on the CPU.
            TypeError: if Eq. 13 is requested of a policy without a coldness.
        """
        policy, means = setup.policy, setup.environment.means
        name = type(policy).__name__
        rule = policy.native_rule(means.new_zeros(1))
        if rule is None:
            raise ValueError(f"rollout: {name} has no native kernel; use compile=True or compile=False")
        if means.device.type != "cpu":
            raise ValueError(
                f"rollout: the native kernel runs on the CPU, got {means.device}; use compile=True or compile=False"
            )
        if setup.gradient and not rule.rule.startswith("soft"):
            check_offered("rollout", "gradient", None, name)
        # (K, *B): with changing candidates K is their number, not that of the items
        batch, size = setup.problem.batch_shape.numel(), len(means) * setup.problem.dim
        if batch < LANES and size > _LARGE:
            return (
                f"compile='native' is slower than eager rounds for fewer than {LANES} trajectories with K * d above "
                f"{_LARGE}, got {batch} with K * d = {size}"
            )
        return load_kernel().reason

    def rounds_at_once(self, numbers_per_round: int) -> int:
        """Return for how many rounds random numbers are drawn, which is also the longest block."""
        most = min(max(_NUMBERS_AT_ONCE, _ROUNDS_AT_ONCE * numbers_per_round), _MAX_NUMBERS)
        return max(1, most // numbers_per_round)

    def play(self, state: SimulationState, noise: Tensor, draws: Tensor) -> Iterator[Round]:
        """Yield the block of rounds after the state was updated."""
        assert isinstance(state, PlayState)
        setup, n, means = self.setup, len(noise), self._problem.means
        assert self._kernel is not None
        num_observations = state.num_observations + torch.arange(n, device=means.device)  # (n,)
        rule = setup.policy.native_rule(num_observations)
        assert rule is not None
        scale, situation = self._scale(state, rule, num_observations)
        check_finite_numbers("rollout: beta, or the scale of Thompson sampling,", scale)
        radius = float(scale.amax()) * math.sqrt(max(0.0, float(state.width_sq.amax())))
        if radius > torch.finfo(means.dtype).max / 4:  # the kernel's arithmetic assumes that nothing overflows
            raise NumericalError(
                f"rollout: the index mu_hat + beta * width must be finite, got beta * width up to {radius:.1e}; "
                f"beta is too large for {means.dtype}"
            )
        if setup.policy.normals_per_decision:
            draws = draws.movedim(-1, 1)
        outputs = KernelOutputs(
            regret=torch.empty_like(noise),
            terms=means.new_zeros(len(GradientTerms._fields), *means.shape[1:]) if setup.gradient else None,
            scores=means.new_empty(len(SCORES), *noise.shape) if setup.scores else None,
        )
        settings = KernelSettings(rule.odds, rule.smoothing, rule.epsilon, setup.arms.discount, setup.policy.ridge_alpha)
        self._kernel(
            rule.rule,
            state.t,
            state.tensors(),
            self._problem,
            noise,
            draws.contiguous(),
            scale,
            settings,
            outputs,
        )
        start, state.t = state.t, state.t + n
        if state.scales is not None:
            _in_units(outputs, noise_unit(state.scales).to(means.dtype))
        terms = None if outputs.terms is None else GradientTerms(*outputs.terms)
        yield Round(start, outputs.regret, terms, scores=outputs.scores, situation=situation if setup.scores else None)

    def _scale(
        self,
        state: PlayState,
        rule: NativeRule,
        num_observations: Tensor,  # (n,)
    ) -> tuple[Tensor, Tensor | None]:
        """Return beta, or the scale of Thompson's draw, as (n or 1, B or 1), and the inputs of a BetaModule."""
        policy, batch = self.setup.policy, self.setup.problem.batch_shape
        scale, situation = rule.scale, None
        if policy.needs_estimate:
            assert isinstance(policy, SoftUCBPolicy)
            estimate = self.setup.arms.estimate(state, state.num_observations)
            scale, situation = policy.situated_beta(estimate, mask=self.setup.problem.mask)
            if situation is not None and self.setup.scores:
                situation = situation.repeat(len(num_observations), *[1] * situation.dim())
                if is_steady(policy):
                    situation[..., -1] = num_observations.view(-1, *[1] * len(batch))
        elif isinstance(policy, SoftUCBPolicy) and policy.beta_module is not None:
            situation = num_observations.unsqueeze(-1)[:, : len(policy.beta_module.inputs)]  # (n, F)
        if not rule.by_round:
            check_beta_fits(type(policy).__name__, scale.shape, batch)
            if isinstance(policy, SoftUCBPolicy) and is_steady(policy) and policy.beta_module is not None:
                scale = policy.beta_module.over_rounds(scale, num_observations).detach()
            else:
                scale = scale.reshape(1, -1)
        if state.scales is not None:  # the kernel's widths are plain norms
            scale = scale * noise_unit(state.scales).to(scale.dtype).reshape(1, -1)
        return scale, situation


def _in_units(outputs: KernelOutputs, unit: Tensor) -> None:  # (*B,)
    """Convert slopes in the kernel's scale and plain widths to slopes in beta and widths in the unit of the rewards."""
    if outputs.terms is not None:
        outputs.terms[:2] *= unit  # reward and penalty
    if outputs.scores is not None:
        for name in ("present", "score", "best_width", "mean_width", "reward_slope", "sum_width"):
            outputs.scores[SCORES.index(name)] *= unit
