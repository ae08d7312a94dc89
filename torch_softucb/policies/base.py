"""Contract of all policies: statistics in, a decision out. Subclasses define how estimates become a decision."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from torch_softucb.checks import check_finite, check_float_tensor, check_mask, check_number
from torch_softucb.policies import fast_path
from torch_softucb.policies._checks import (
    check_arms,
    check_bandit,
    check_observed,
    check_overflow,
    check_pending,
    check_remembered,
)
from torch_softucb.policies.decision import Decision, Estimate, NativeRule
from torch_softucb.policies.estimates import estimate_arms, running_sums, with_prior
from torch_softucb.policies.guard import load_whole
from torch_softucb.policies.statistics import RidgeStatistics
from torch_softucb.policies.updates import REWARD_SUMS, Change, MemorySums, UpdateRule, updated_rows


class BanditPolicy(RidgeStatistics, ABC):
    """Linear bandit policy over ridge statistics, for one bandit or a batch of independent ones.

    A new policy defines :meth:`decide`; the other methods have defaults.

    Args:
        dim: number of features d.
        ridge_alpha: ridge weight alpha; V starts as alpha I.
        refresh_every: number of single observations after which a bandit's cached inverse is recomputed from V.
        prior: :class:`~torch_softucb.GaussianPrior` of every bandit, instead of ``ridge_alpha``. ``statistics`` are then
            sums of whitened features and centred rewards, see :mod:`torch_softucb.policies.prior`.
        device: device of statistics and parameters.
        dtype: dtype of arms, rewards and decisions. Statistics are float64 in any case.
        memory: ``(M,)`` initial value of what the policy keeps per bandit in addition to the ridge statistics.
    """

    memory_is_centred: ClassVar[bool] = True  # whether `remember` gets rewards relative to what the prior predicts

    @abstractmethod
    def decide(
        self,
        estimate: Estimate,
        *,
        mask: Tensor | None = None,  # (K,) or (*B, K)
        bandit: Tensor | None = None,  # (N,)
    ) -> Decision:
        """Turn estimates into a decision. The caller has checked the inputs."""

    @property
    def carries_gamma(self) -> bool:
        """Whether ``update`` needs the decision, because the next round uses its coldness."""
        return False

    @property
    def needs_estimate(self) -> bool:
        """Whether beta depends on the estimates of a round, not only on the number of observations."""
        return False

    @property
    def normals_per_decision(self) -> int:
        """Number of standard normal numbers that ``Decision.pick`` takes; 0 if it takes one uniform number."""
        return 0

    @property
    def remembers(self) -> bool:
        """Whether ``update`` needs the decision and the arm, because :meth:`remember` updates a memory with them."""
        return False

    @property
    def keeps_sums(self) -> bool:
        """Whether the memory is the number of observations and sum y^2, for ``Estimate.running_sums``."""
        return False

    @property
    def memory_sums(self) -> MemorySums | None:
        """How the memory takes in observations, if it holds running sums."""
        return REWARD_SUMS if self.keeps_sums else None

    def forward(
        self,
        arms: Tensor,  # (K, d) or (*B, K, d); with one bandit, leading dims are requests
        *,
        mask: Tensor | None = None,  # (K,) or (*B, K)
        bandit: Tensor | None = None,  # (N,); arms are then (K, d) or (N, K, d)
        pending: Tensor | None = None,  # (d, d) or (*B, d, d)
    ) -> Decision:
        """Decide on a set of arms; changes nothing.

        Args:
            arms: features, one set of arms for all bandits or one per bandit or request.
            mask: True = allowed, at least one arm per row.
            bandit: rows of the batch that decide; all rows by default.
            pending: sum of x x^T over pulls whose reward has not arrived; narrows the width, never changes the mean.
        """
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
        elif not torch.is_grad_enabled() and fast_path.applies(statistics, arms, dims=2):
            decision = self._decide_one(where, statistics, arms, mask)
            if decision is not None:
                return decision
        return self.decide(self.estimate(where, arms, bandit, pending), mask=mask, bandit=bandit)

    def estimate(self, where: str, arms: Tensor, bandit: Tensor | None = None, pending: Tensor | None = None) -> Estimate:
        """Estimate the arms of arguments that have been checked; those of :meth:`forward`."""
        prior = self._prior
        if prior is None:
            return self._estimate(where, arms, bandit, pending)
        if pending is not None:
            pending = prior.whiten(prior.whiten(pending.double()).mT)
        return with_prior(self._estimate(where, prior.whiten(arms), bandit, pending), prior, arms)

    def _rows(self, bandit: Tensor | None) -> Tensor:  # (N,) -> (*B, size) or (N, size)
        """Return the statistics behind a decision, which no later update writes to."""
        statistics = self.statistics
        if statistics.dim() == 1:
            return statistics  # replaced by updates, never written to
        if torch.compiler.is_compiling():
            return statistics.clone() if bandit is None else statistics[bandit]
        with self.guard.lock:
            self.guard.recover()
            statistics = self.statistics
            return statistics.clone() if bandit is None else statistics[bandit]

    def _decide_one(self, where: str, row: Tensor, arms: Tensor, mask: Tensor | None) -> Decision | None:
        """Decide by :mod:`~torch_softucb.policies.fast_path`; None for policies without a fast path."""
        return None

    def _estimate(self, where: str, arms: Tensor, bandit: Tensor | None, pending: Tensor | None = None) -> Estimate:
        state = self.layout.unpack(self._rows(bandit))
        sums = running_sums(state, self.ridge_alpha).to(arms.dtype) if self.keeps_sums else None
        return estimate_arms(where, state, arms, pending, convert_memory=self.remembers, sums=sums)

    def native_rule(self, num_observations: Tensor) -> NativeRule | None:  # (n,) before each of the next n rounds
        """Return the decision rule for the native kernel; None if the kernel does not support this policy."""
        return None

    def remember(
        self,
        memory: Tensor,  # (*B, M)
        arm: Tensor,  # (*B,)
        reward: Tensor,  # (*B,)
        decision: Decision,
    ) -> Tensor:  # (*B, M)
        """Return the memory after one more reward, for policies that keep one."""
        return memory

    def _next_gamma(self, decision: Decision | None, old: Tensor) -> Tensor:  # (*B,) -> (*B,)
        """Coldness to carry to the next round."""
        return old

    def update(
        self,
        x: Tensor,  # (*B, d), or (*B, n, d) for n observations per bandit; with one bandit, leading dims are observations
        reward: Tensor,  # shape of x without the last dim
        *,
        bandit: Tensor | None = None,  # (N,), repeated ids allowed; x is then (N, d) or (N, n, d)
        decision: Decision | None = None,
        arm: Tensor | None = None,  # (*B,)
        discount: float = 1.0,
    ) -> None:
        """Learn from observed rewards. Takes effect as a whole or, on bad input, raises and changes nothing.

        Args:
            x: features of the arms that were played.
            reward: observed rewards.
            bandit: rows of the batch that the observations belong to; all rows by default.
            decision: decision that chose the arms, for policies that need it.
            arm: arms that were played, for policies that keep a memory.
            discount: share of its statistics that each updated bandit keeps, for rewards that drift. Applied once per
                call, before the observations are added.
        """
        with self.guard.lock:
            self.guard.recover()
            rows, old, new = self.updated(
                self.statistics, x, reward, bandit=bandit, decision=decision, arm=arm, discount=discount
            )
            if rows is None:
                self._buffers["statistics"] = new
            else:
                self.guard.commit(partial(self.write, rows, new), partial(self.write, rows, old))

    def write(self, rows: Tensor | None, values: Tensor) -> None:  # (n,), (n, size) or (*B, size)
        """Replace the statistics, or write some of their rows, without a check. The caller holds ``guard.lock``."""
        if rows is None:
            self._buffers["statistics"] = values
        else:
            with torch.inference_mode(False):
                self.statistics.index_copy_(0, rows, values)

    def updated(
        self,
        statistics: Tensor,  # (*B, size)
        x: Tensor,  # as in update
        reward: Tensor,  # as in update
        *,
        bandit: Tensor | None = None,  # (N,)
        decision: Decision | None = None,
        arm: Tensor | None = None,  # (*B,)
        discount: float = 1.0,
    ) -> Change:
        """Check the arguments of :meth:`update` and return what it would write to these statistics; changes nothing."""
        where = f"{type(self).__name__}.update"
        like = self._like
        check_float_tensor(where, "x", x, dtype=like.dtype, device=like.device)
        check_float_tensor(where, "reward", reward, dtype=like.dtype, device=like.device)
        rows = statistics.shape[:-1]
        if bandit is not None:
            check_bandit(where, bandit, rows, device=like.device)
            rows = bandit.shape
        check_observed(where, x.shape, reward.shape, rows, self.dim)
        if discount != 1.0:
            check_number(where, "discount", discount, low=0.0, high=1.0, open_low=True, closed_high=True)
        remember = None
        if self.remembers:
            decision, arm = check_remembered(where, decision, arm, rows, reward=reward.shape, bandit=bandit)
            remember = partial(self.remember, arm=arm, decision=decision)
        elif discount == 1.0 and fast_path.applies(statistics, x, dims=1):
            row = self._observe_one(statistics, x, reward, decision)
            if row is not None:
                return Change(None, statistics, fast_path.as_tensor(row))
        check_finite(where, "x", x)
        check_finite(where, "reward", reward)
        rule = UpdateRule(
            layout=self.layout,
            ridge_alpha=self.ridge_alpha,
            refresh_every=self.refresh_every,
            sums=self.memory_sums,
            next_gamma=partial(self._next_gamma, decision),
            remember=remember,
        )
        with torch.inference_mode(False), torch.no_grad():
            x, reward = x.double(), reward.double()
            if self._prior is not None:
                if remember is not None and not self.memory_is_centred:
                    given = partial(remember, reward=reward)
                    rule = rule._replace(remember=lambda memory, reward: given(memory))
                x, reward = self._prior.whiten(x), self._prior.residual(x, reward)
            if statistics.dim() == 1 and reward.dim():
                x, reward = x.reshape(-1, self.dim), reward.reshape(-1)
            change = self._change(statistics, x, reward, bandit, rule, discount)
            check_overflow(where, change.new)
        return change

    def _change(
        self,
        statistics: Tensor,  # (*B, size)
        x: Tensor,  # as in updated_rows
        reward: Tensor,  # as in updated_rows
        bandit: Tensor | None,  # (N,)
        rule: UpdateRule,
        discount: float,
    ) -> Change:
        """Compute an update whose arguments have been checked."""
        return updated_rows(statistics, x, reward, bandit, rule, discount)

    def _observe_one(
        self,
        row: Tensor,  # (size,)
        x: Tensor,  # (d,)
        reward: Tensor,  # ()
        decision: Decision | None,
    ) -> fast_path.Array | None:  # (size,)
        """Update one bandit by :mod:`~torch_softucb.policies.fast_path`; None where it does not apply."""
        if self.memory_sums is not None:
            return None
        gamma = self._next_gamma(decision, row[self.layout.gamma]).item() if self.carries_gamma else None
        return fast_path.observed(row, x, reward, gamma, self.refresh_every, self.layout, self._prior)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        with self.guard.lock:
            self.guard.recover()
            super()._save_to_state_dict(destination, prefix, keep_vars)
            if self.batch_shape and not keep_vars:  # later updates write to these rows
                destination[prefix + "statistics"] = destination[prefix + "statistics"].clone()

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load a state as a whole, or raise and change nothing; the arguments are those of ``torch.nn.Module``."""
        return load_whole(self.guard, self, lambda: super(BanditPolicy, self).load_state_dict(state_dict, strict, assign))
