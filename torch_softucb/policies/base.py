"""What every policy is: statistics in, a decision out. Subclasses say only how estimates become a decision."""

import math
from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_finite, check_float_tensor, check_integer, check_mask, check_number, values_readable
from torch_softucb.functional.residuals import _residual_sum
from torch_softucb.functional.ridge import _ridge_estimate, _ridge_estimate_blocks, _ridge_root
from torch_softucb.policies import fast_path as single
from torch_softucb.policies._checks import (
    check_arms,
    check_bandit,
    check_batch_shape,
    check_features,
    check_observed,
    check_overflow,
    check_pending,
    check_remembered,
)
from torch_softucb.policies.decision import Decision, Estimate, NativeRule
from torch_softucb.policies.rows import RidgeState, forget, fresh_rows, observe_many, observe_one, pack, unpack

_FEW = 4  # observations of one row that cost less one by one than a new factorisation


class BanditPolicy(nn.Module, ABC):
    """A linear bandit policy over ridge statistics, for one bandit or a batch of independent ones.

    Args:
        dim: number of features d.
        ridge_alpha: ridge weight alpha; V starts as alpha I.
        refresh_every: after so many single observations a bandit's cache is made anew from V.

    The statistics are one float64 buffer whatever the policy's dtype; they go into ``state_dict`` and follow ``.to()``.
    """

    carries_gamma = False  # does update need the decision's coldness?
    needs_estimate = False  # does its beta depend on what the round looks like, beyond the number of observations?
    normals_per_decision = 0  # standard normal numbers that Decision.pick takes; 0: one uniform number
    _ddp_params_and_buffers_to_ignore = ("statistics",)  # else DDP writes rank 0's statistics over every other rank's
    statistics: Tensor
    _like: Tensor
    _fresh_memory: Tensor | None

    def __init__(
        self,
        dim: int,
        *,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        memory: Tensor | None = None,  # (M,) what a new bandit remembers beside its statistics
        running_sums: bool = False,  # keep what Estimate.running_sums needs: observations and sum y^2, as the memory
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.dim = check_integer(name, "dim", dim, low=1)
        self.ridge_alpha = check_number(name, "ridge_alpha", ridge_alpha, low=0.0, open_low=True)
        self.refresh_every = check_integer(name, "refresh_every", refresh_every, low=1)
        self.register_buffer("_like", torch.empty(0, dtype=dtype, device=device), persistent=False)
        check_float_tensor(name, "dtype", self._like)
        self.remembers = memory is not None  # keeps a memory of its own, by remember()
        self.keeps_sums = running_sums
        self.register_buffer("_fresh_memory", torch.zeros(2, device=device) if running_sums else memory, persistent=False)
        self.register_buffer("statistics", self._fresh(()))

    @property
    def dtype(self) -> torch.dtype:
        """Of the arms it takes and the decisions it gives."""
        return self._like.dtype

    @property
    def device(self) -> torch.device:
        return self._like.device

    @property
    def batch_shape(self) -> torch.Size:
        return self.statistics.shape[:-1]

    @property
    def state(self) -> RidgeState:
        """Views of V, root, b and the number of observations: to look at."""
        return unpack(self.statistics, self.dim)

    @torch.inference_mode(False)
    def reset(self, *, batch_shape: tuple[int, ...] = ()) -> None:
        """Forget everything; from now on, ``batch_shape`` independent bandits. ``()`` is one bandit."""
        check_batch_shape(f"{type(self).__name__}.reset", batch_shape)
        self.statistics = self._fresh(tuple(batch_shape))

    def _fresh(self, batch_shape: tuple[int, ...]) -> Tensor:
        return fresh_rows(batch_shape, self.dim, self.ridge_alpha, self._like.device, self._fresh_memory)

    def cache_error(self) -> Tensor:  # (*B,)
        """How far each cache is off: max |I - root^T V root|; times d, a bound of width^2's relative error."""
        return F.ridge_cache_error(self.state.V, self.state.root)

    @torch.no_grad()
    def refresh(self) -> None:
        """Make every cache anew from V."""
        old = self.state
        self.statistics.copy_(pack(old._replace(root=F.ridge_root(old.V))))

    def forward(
        self,
        arms: Tensor,  # (K, d) or (*B, K, d); with one bandit, leading dims are requests
        *,
        mask: Tensor | None = None,  # (K,) or (*B, K), True = allowed
        bandit: Tensor | None = None,  # (N,) rows of the batch; arms are then (K, d) or (N, K, d)
        pending: Tensor | None = None,  # (d, d) or (*B, d, d) sum of x x^T over pulls whose reward has not come yet
    ) -> Decision:
        """Decide on these arms; changes nothing. Pending pulls narrow the width, never the mean."""
        where = type(self).__name__
        like, statistics = self._like, self.statistics
        check_float_tensor(where, "arms", arms, dtype=like.dtype, device=like.device)
        rows = statistics.shape[:-1]
        if bandit is not None:
            check_bandit(where, bandit, rows, device=like.device)
            rows = bandit.shape
        check_arms(where, arms.shape, rows, self.dim)
        if mask is not None:
            check_mask(where, mask, (*(rows if len(rows) else arms.shape[:-2]), arms.shape[-2]), device=like.device)
        if pending is not None:
            check_pending(where, pending, rows, self.dim)
        elif not torch.is_grad_enabled() and single.applies(statistics, arms, dims=2):
            decision = self._decide_one(where, statistics, arms, mask)
            if decision is not None:
                return decision
        return self.decide(self._estimate(where, arms, bandit, pending), mask=mask, bandit=bandit)

    def _decide_one(self, where: str, row: Tensor, arms: Tensor, mask: Tensor | None) -> Decision | None:
        """A short cut for one bandit and one set of arms, by a policy that has one."""
        return None

    def _estimate(self, where: str, arms: Tensor, bandit: Tensor | None, pending: Tensor | None = None) -> Estimate:
        statistics = self.statistics
        if bandit is not None:
            statistics = statistics[bandit]
        elif torch.is_grad_enabled() or self.normals_per_decision:
            statistics = statistics.clone()  # backward, and a decision that is drawn later, must not see what update writes
        state = unpack(statistics, self.dim)
        many = values_readable(arms) and pending is None and state.b.dim() == 1 and arms.numel() > single.MOST
        # statistics are float64; a float32 product loses sqrt(cond(V)) * 6e-8
        dtype = arms.dtype if many and F.low_precision_suffices(state.V, state.root, arms.dtype) else torch.float64
        root, b = state.root.to(dtype), state.b.to(dtype)
        if many and not torch.is_grad_enabled():
            mu_hat, width = _ridge_estimate_blocks(arms, root, b)
        else:
            mu_hat, width = _ridge_estimate(arms.to(dtype), root, b)
        check_features(where, arms, mu_hat)
        if pending is not None:
            root = _ridge_root(state.V + pending.double()).to(dtype)
            width = _ridge_estimate(arms.to(dtype), root, b)[1]

        def perturb(z: Tensor) -> Tensor:
            step = root @ z.to(dtype).unsqueeze(-1)
            return (arms.to(dtype) @ step).squeeze(-1).to(arms.dtype)

        kept = (
            (arms, state.root.to(arms.dtype), state.memory.to(arms.dtype)) if self.remembers else (arms, root, state.memory)
        )
        running_sums = self._running_sums(state).to(arms.dtype) if self.keeps_sums else None
        return Estimate(
            mu_hat.to(arms.dtype), width.to(arms.dtype), state.num_observations, state.gamma, perturb, *kept, running_sums
        )

    def _running_sums(self, state: RidgeState) -> Tensor:  # (*B, 3)
        count, squares = state.memory.unbind(-1)
        log_det = torch.logdet(state.V) - self.dim * math.log(self.ridge_alpha)
        return torch.stack((count, _residual_sum(squares, state.root, state.b), log_det), dim=-1)

    @abstractmethod
    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        """From estimates to a decision: all that tells one policy from another. Inputs were checked by the caller."""

    def native_rule(
        self, num_observations: Tensor
    ) -> NativeRule | None:  # (n,) observations before each of the next n rounds
        """What the native kernel needs to know to decide like this policy; None: it cannot."""
        return None

    def _next_gamma(self, decision: Decision | None, old: Tensor) -> Tensor:
        return old

    def remember(
        self,
        memory: Tensor,  # (*B, M)
        arm: Tensor,  # (*B,)
        reward: Tensor,  # (*B,)
        decision: Decision,
    ) -> Tensor:  # (*B, M)
        """Its memory after one more reward, for policies that keep one."""
        return memory

    def update(
        self,
        x: Tensor,  # (*B, d), or (*B, n, d) for n observations a bandit; with one bandit, all leading dims are folded in
        reward: Tensor,  # x's shape without the last dim
        *,
        bandit: Tensor | None = None,  # (N,) rows of the batch, repeated ids allowed; x is then (N, d) or (N, n, d)
        decision: Decision | None = None,
        arm: Tensor | None = None,  # (*B,) the arms played: for policies that remember arms, with the decision
        discount: float = 1.0,
    ) -> None:
        """Take in observed rewards. Takes effect whole or, on bad input, raises and changes nothing.

        ``discount`` below 1 is for rewards that drift: each of the bandits named first keeps that share of what it knew,
        once a call, however many observations come with it.
        """
        where = f"{type(self).__name__}.update"
        like, statistics = self._like, self.statistics
        check_float_tensor(where, "x", x, dtype=like.dtype, device=like.device)
        check_float_tensor(where, "reward", reward, dtype=like.dtype, device=like.device)
        rows = statistics.shape[:-1]
        if bandit is not None:
            check_bandit(where, bandit, rows, device=like.device)
            rows = bandit.shape
        check_observed(where, x.shape, reward.shape, rows, self.dim)
        if discount != 1.0:
            check_number(where, "discount", discount, low=0.0, high=1.0, open_low=True, closed_high=True)
        if self.remembers:
            decision, arm = check_remembered(where, decision, arm, rows, lead=reward.shape, bandit=bandit)
        elif (
            not reward.requires_grad
            and not self.keeps_sums
            and discount == 1.0
            and single.applies(statistics, x, dims=1)
            and self._observe_next(statistics, x, reward, decision)
        ):
            return
        check_finite(where, "x", x)
        check_finite(where, "reward", reward)
        self._update_rows(x, reward, bandit, decision, arm, discount)

    @torch.inference_mode(False)
    @torch.no_grad()
    def _update_rows(
        self,
        x: Tensor,
        reward: Tensor,
        bandit: Tensor | None,
        decision: Decision | None,
        arm: Tensor | None,
        discount: float,
    ) -> None:
        x, reward = x.double(), reward.double()
        if not self.batch_shape and reward.dim():
            x, reward = x.reshape(-1, self.dim), reward.reshape(-1)
        if bandit is None:
            new = self._observe(self._old(None, discount), x, reward, decision, arm)
            check_overflow(f"{type(self).__name__}.update", new)
            self.statistics.copy_(new)
            return
        unique, group, times = torch.unique(bandit, return_inverse=True, return_counts=True)
        if len(unique) < len(bandit):
            old = self._old(unique, discount)
            few = x.dim() == 2 and int(times.max()) <= _FEW
            new = (self._observe_waves if few else self._observe_groups)(old, group, x, reward, decision)
        else:
            unique = bandit
            new = self._observe(self._old(bandit, discount), x, reward, decision, arm)
        check_overflow(f"{type(self).__name__}.update", new)
        self.statistics.index_copy_(0, unique, new)

    def _old(self, rows: Tensor | None, discount: float) -> RidgeState:
        """What the bandits of these rows still know."""
        old = unpack(self.statistics if rows is None else self.statistics[rows], self.dim)
        if discount == 1.0:
            return old
        left = forget(old, discount, self.ridge_alpha)
        return left._replace(memory=discount * old.memory) if self.keeps_sums else left

    def _observe_next(self, statistics: Tensor, x: Tensor, reward: Tensor, decision: Decision | None) -> bool:
        """A short cut for one observation of one bandit; False when something is not finite, or a refresh is due."""
        row, wide, number = statistics.numpy(), x.numpy().astype(np.float64), reward.item()
        if not math.isfinite(number + np.add.reduce(wide)) or (row[-2] + 1) % self.refresh_every == 0:
            return False
        gamma = self._next_gamma(decision, statistics.select(-1, -1)).item() if self.carries_gamma else row[-1]
        new = single.observe(row, wide, number, gamma)
        if not math.isfinite(np.add.reduce(new)):
            return False
        row[:] = new
        return True

    def _observe(self, old: RidgeState, x: Tensor, reward: Tensor, decision: Decision | None, arm: Tensor | None) -> Tensor:
        if self.remembers:
            assert arm is not None
            assert decision is not None
            old = old._replace(memory=self.remember(old.memory, arm, reward, decision))
        if self.keeps_sums:
            old = old._replace(memory=old.memory + F.reward_sums(reward.unsqueeze(-1) if x.dim() == old.b.dim() else reward))
        gamma = self._next_gamma(decision, old.gamma)
        if x.dim() > old.b.dim() and x.shape[-2] == 1:
            x, reward = x.squeeze(-2), reward.squeeze(-1)
        if x.dim() == old.b.dim():
            return pack(observe_one(old, x, reward, gamma, self.refresh_every))
        dn = torch.full_like(old.num_observations, x.shape[-2])
        return pack(observe_many(old, x.mT @ x, (x.mT @ reward.unsqueeze(-1)).squeeze(-1), dn, gamma))

    def _observe_waves(self, old: RidgeState, group: Tensor, x: Tensor, reward: Tensor, decision: Decision | None) -> Tensor:
        """Rows of which some occur a few times: the first observation of each, then the second of those that have one."""
        gamma = self._next_gamma(decision, old.gamma)
        order = group.argsort(stable=True)
        starts = torch.searchsorted(group[order], torch.arange(len(old.num_observations), device=group.device))
        position = torch.empty_like(order)
        position[order] = torch.arange(len(order), device=group.device) - starts[group[order]]
        new = pack(old._replace(gamma=gamma))
        for wave in range(int(position.max()) + 1):
            at = (position == wave).nonzero().squeeze(-1)
            rows = group[at]
            state = unpack(new[rows], self.dim)
            if self.keeps_sums:
                state = state._replace(memory=state.memory + F.reward_sums(reward[at].unsqueeze(-1)))
            new[rows] = pack(observe_one(state, x[at], reward[at], state.gamma, self.refresh_every))
        return new

    def _observe_groups(
        self, old: RidgeState, group: Tensor, x: Tensor, reward: Tensor, decision: Decision | None
    ) -> Tensor:
        """Rows that occur more than once: sums over each id's observations."""
        gamma = self._next_gamma(decision, old.gamma)
        x, reward = x.reshape(len(group), -1, self.dim), reward.reshape(len(group), -1)
        dV = torch.zeros_like(old.V).index_add(0, group, x.mT @ x)
        db = torch.zeros_like(old.b).index_add(0, group, (x.mT @ reward.unsqueeze(-1)).squeeze(-1))
        dn = torch.zeros_like(old.num_observations).index_add(0, group, x.new_full((len(group),), x.shape[1]))
        if self.keeps_sums:
            old = old._replace(memory=old.memory.index_add(0, group, F.reward_sums(reward)))
        return pack(observe_many(old, dV, db, dn, gamma))

    def _apply(self, fn, recurse=True):  # type: ignore[no-untyped-def]
        statistics = self.statistics
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.statistics.dtype != torch.float64:  # .float() or .half() is for decisions; V and b stay the truth
            self.statistics = statistics.to(self.statistics.device)
        return self

    def _load_from_state_dict(self, state_dict, prefix, *args):  # type: ignore[no-untyped-def]
        saved = state_dict.get(prefix + "statistics")
        if saved is not None and saved.dim() and saved.shape[-1] == self.statistics.shape[-1]:
            self.statistics = self.statistics.new_empty(saved.shape)  # a checkpoint brings its own batch of bandits
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, ridge_alpha={self.ridge_alpha}, batch_shape={tuple(self.batch_shape)}"
