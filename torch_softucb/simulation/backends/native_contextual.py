"""Play blocks of rounds with changing candidates in one call of the C++ kernel (contextual.h)."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.errors import NumericalError
from torch_softucb.policies._checks import check_beta_fits
from torch_softucb.policies.auto import AutoSoftUCB
from torch_softucb.policies.decision import NativeRule
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.simulation.backends.base import PlaySetup
from torch_softucb.simulation.backends.kernel import load_kernel
from torch_softucb.simulation.backends.native import KernelOutputs, KernelSettings, Native, is_steady
from torch_softucb.simulation.contextual_arms import ContextualArms
from torch_softucb.simulation.contextual_environment import ContextualEnvironment
from torch_softucb.simulation.contextual_state import ContextualState
from torch_softucb.simulation.saved_state import SimulationState, check_finite_numbers
from torch_softucb.simulation.trajectory import SCORES, GradientTerms, Round

MEMORY = ("none", "reward_sums", "scales")  # what the memory of a row holds, in the order of `Memory` in contextual.h


class KernelWorld(NamedTuple):
    """The world as the kernel takes it, in the order of ``WorldField`` in rounds.cpp; all tensors contiguous."""

    items: Tensor  # (M, d) or (B, M, d), whitened by the prior
    means: Tensor  # (B, M)
    base: Tensor | None  # (M,) or (B, M), what the prior predicts
    rotated_means: Tensor | None  # (B, M)
    drift_rate: Tensor | None  # (B,)
    candidates: Tensor | None = None  # (n, B, K) int32
    delays: Tensor | None = None  # (n, B) int64


class KernelShape(NamedTuple):
    """Sizes and flags that the kernel takes, in the order of ``Shape`` in rounds.cpp."""

    memory: int  # position in MEMORY
    memory_size: int
    slots: int  # D + 1, or 0 without delays
    fixed_delay: int  # -1 if it is random
    refresh_every: int
    anchors: int  # whether the first reward of a bandit is the anchor of its scales
    bernoulli: int


def _memory_of(setup: PlaySetup) -> str | None:
    policy = setup.policy
    if isinstance(policy, AutoSoftUCB):
        return "scales"
    if policy.keeps_sums:
        return "reward_sums"
    return None if policy.layout.memory_size else "none"


def _kernel_world(setup: PlaySetup) -> KernelWorld:
    problem, prior = setup.problem, setup.arms.player.prior if isinstance(setup.arms, ContextualArms) else None
    count, m, like = problem.batch_shape.numel(), problem.num_arms, problem.means
    items = problem.arms if problem.shared_arms else problem.arms.reshape(count, m, -1)
    base = None
    if prior is not None:
        exact = items.double()
        items, base = prior.whiten(exact).to(like.dtype), (prior.predict(exact) + prior.offset).to(like.dtype)
    rotated = rate = None
    if problem.rotated_means is not None:
        rotated = problem.rotated_means.reshape(count, m).contiguous()
        rate = torch.as_tensor(problem.drift_rate, dtype=like.dtype).expand(problem.batch_shape).reshape(-1).contiguous()
    return KernelWorld(items.contiguous(), like.reshape(count, m).contiguous(), base, rotated, rate)


class NativeContextual(Native):
    """Backend for changing candidates that plays blocks of rounds per call."""

    def __init__(self, setup: PlaySetup) -> None:
        assert isinstance(setup.arms, ContextualArms)
        assert isinstance(setup.environment, ContextualEnvironment)
        self.setup, self.arms, self.environment = setup, setup.arms, setup.environment
        problem, player, policy = self.environment.problem, self.arms.player, setup.policy
        self._world, self._contextual = _kernel_world(setup), load_kernel().contextual
        lengths = self._world.items.double().square().sum(-1).sqrt()
        widest = player.state.root.square().sum((-2, -1)).amax().sqrt()  # at least the largest factor |root^T x| / |x|
        self._widest = float(lengths.amax() * widest)
        self._delay = problem.fixed_delay
        counts = player.state.num_observations
        self._first_count = float(counts.flatten()[0])
        self._all_alike = self._delay is not None and bool((counts == counts.flatten()[0]).all())
        by_round = bool(policy.native_rule(problem.means.new_zeros(1)).by_round)  # type: ignore[union-attr]
        sizes_vary = problem.sets is not None and (problem.mask is not None or bool((problem.sets < 0).any()))
        changes = policy.needs_estimate and (sizes_vary or not is_steady(policy))
        varies = not self._all_alike and (by_round or policy.needs_estimate or isinstance(policy, AutoSoftUCB))
        self.max_rounds = 1 if changes or varies else None
        self._shape = KernelShape(
            memory=MEMORY.index(_memory_of(setup) or "none"),
            memory_size=policy.layout.memory_size,
            slots=0 if problem.delay is None else problem.max_delay + 1,
            fixed_delay=-1 if self._delay is None else self._delay,
            refresh_every=policy.refresh_every,
            anchors=int(player.prior is None),
            bernoulli=int(problem.reward == "bernoulli"),
        )

    @classmethod
    def unsupported(cls, setup: PlaySetup) -> str | None:
        """Return why the kernel is not used, or None."""
        policy = setup.policy
        if isinstance(policy, AutoSoftUCB) and policy.rows_per_group != 1:
            return "compile='native' does not pool the scales of several bandits"
        if _memory_of(setup) is None:
            raise ValueError(f"rollout: {type(policy).__name__} has no native kernel; use compile=True or compile=False")
        return super().unsupported(setup)

    def play(self, state: SimulationState, noise: Tensor, draws: Tensor) -> Iterator[Round]:
        """Yield the block of rounds after the state was updated."""
        assert isinstance(state, ContextualState)
        assert self._contextual is not None
        setup, n, means = self.setup, len(noise), self._world.means
        batch, count = noise.shape[1:], len(means)
        rule, scale, situation = self._scale_of(state, n)
        check_finite_numbers("rollout: beta, or the scale of Thompson sampling,", scale)
        radius = float(scale.amax()) * max(self._widest, float(state.width.amax()))
        if radius > torch.finfo(means.dtype).max / 4:  # the kernel's arithmetic assumes that nothing overflows
            raise NumericalError(
                f"rollout: the index mu_hat + beta * width must be finite, got beta * width up to {radius:.1e}; "
                f"beta is too large for {means.dtype}"
            )
        candidates, delays = self.environment.candidates[:n], self.environment.delays
        outputs = KernelOutputs(
            regret=means.new_empty(n, count),
            terms=means.new_zeros(len(GradientTerms._fields), count) if setup.gradient else None,
            scores=means.new_empty(len(SCORES), n, count) if setup.scores else None,
        )
        draws = draws.movedim(-1, 1).reshape(n, -1, count) if setup.policy.normals_per_decision else draws.reshape(n, count)
        state.statistics = state.statistics.contiguous()
        waiting = None if state.waiting is None else state.waiting.view(count, *state.waiting.shape[-2:])
        self._contextual(
            rule.rule,
            state.t,
            self._world._replace(
                candidates=candidates.reshape(n, count, -1).to(torch.int32).contiguous(),
                delays=None if delays is None else delays[:n].reshape(n, count).contiguous(),
            ),
            [state.statistics.view(count, -1), waiting, state.mu_hat.view(-1), state.width.view(-1)],
            noise.reshape(n, count).contiguous(),
            draws.contiguous(),
            scale.to(means.dtype),
            KernelSettings(rule.odds, rule.smoothing, rule.epsilon, self.arms.discount, setup.policy.ridge_alpha),
            self._shape,
            outputs,
        )
        start, state.t = state.t, state.t + n
        terms = None if outputs.terms is None else GradientTerms(*(term.view(batch) for term in outputs.terms))
        scores = None if outputs.scores is None else outputs.scores.view(-1, n, *batch)
        yield Round(start, outputs.regret.view(n, *batch), terms, scores=scores, situation=situation)

    def _counts(self, state: ContextualState, n: int) -> Tensor:  # (n,), or (B,) for one round
        """Return the number of observations before each round; before one round, that of each trajectory if they differ."""
        if not self._all_alike:
            return state.num_observations.flatten().clone()  # the kernel writes to the statistics
        rounds = state.t + torch.arange(n) - (self._delay or 0)
        return (self._first_count + rounds.clamp(min=0)).to(state.mu_hat.dtype)

    def _scale_of(self, state: ContextualState, n: int) -> tuple[NativeRule, Tensor, Tensor | None]:
        """Return the rule, beta or the scale of Thompson's draw as (n or 1, B or 1), and the inputs of a BetaModule."""
        policy, batch, counts = self.setup.policy, self.environment.problem.batch_shape, self._counts(state, n)
        rule = policy.native_rule(counts)
        assert rule is not None
        situation, module = None, getattr(policy, "beta_module", None)
        if policy.needs_estimate:
            assert isinstance(policy, SoftUCBPolicy)
            self.environment.show(state.t)
            estimate = self.arms.estimate(state, state.num_observations)
            scale, situation = policy.situated_beta(estimate, mask=self.environment.mask)
            check_beta_fits(type(policy).__name__, scale.shape, batch)
            if situation is not None and self.setup.scores:
                situation = situation.repeat(n, *[1] * situation.dim())
                if is_steady(policy) and self._all_alike:
                    situation[..., -1] = counts.view(-1, *[1] * len(batch))
            if is_steady(policy) and self._all_alike and module is not None:
                return rule, module.over_rounds(scale, counts).detach(), situation if self.setup.scores else None
            return rule, scale.detach().reshape(1, -1), situation if self.setup.scores else None
        if module is not None and self.setup.scores:
            situation = counts.unsqueeze(-1)[:, : len(module.inputs)]
            if self._all_alike:
                situation = situation.view(n, *[1] * len(batch), -1).expand(n, *batch, -1)
            else:
                situation = situation.view(1, *batch, -1)
        if rule.by_round:
            return rule, rule.scale if self._all_alike else rule.scale.reshape(1, -1), situation
        check_beta_fits(type(policy).__name__, rule.scale.shape, batch)
        return rule, rule.scale.reshape(1, -1), situation
