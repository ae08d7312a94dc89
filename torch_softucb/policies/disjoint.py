"""Arms without features: each arm has its own linear model of the context."""

from typing import Literal

import torch
from torch import Tensor, nn

from torch_softucb.checks import check_arm_ids, check_float_tensor, check_integer, check_mask, check_shape
from torch_softucb.functional.ridge import _ridge_estimate
from torch_softucb.functional.scales import _joint_width, _offset_width
from torch_softucb.policies import disjoint_fast_path
from torch_softucb.policies._checks import check_bandit, check_batch_shape, check_policy
from torch_softucb.policies.auto import AutoSoftUCB, in_units
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.estimates import running_sums, with_prior
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.policies.rows import RidgeState
from torch_softucb.policies.scales import unpack_memory
from torch_softucb.policies.soft_ucb import SoftUCBPolicy


class DisjointArms(nn.Module):
    """Linear bandit over contexts: arm k has mean reward x . theta_k, where x is the context of the request.

    The model of most bandit libraries, for any policy over ridge statistics. Each arm has its own statistics (K matrices of
    d x d, never one of K d x K d). With :meth:`SoftUCBPolicy.auto <torch_softucb.SoftUCBPolicy.auto>` the arms of a bandit
    share offset, noise and prior scale.

    Args:
        policy: policy over contexts of d features. It is reset to one row of statistics per arm.
        num_arms: number of arms K.

    Attributes:
        policy: the policy; row b K + k of its batch belongs to arm k of bandit b.

    Example:
        >>> from torch_softucb import LinUCB
        >>> arms = DisjointArms(LinUCB(dim=2, beta=0.1), num_arms=3)
        >>> context = torch.tensor([1.0, 0.5])
        >>> decision = arms(context)
        >>> decision.probs  # nothing is known yet
        tensor([0.3333, 0.3333, 0.3333])
        >>> arms.update(context, torch.tensor(1), torch.tensor(1.0))  # arm 1 was played and had reward 1
        >>> arms(context).probs
        tensor([0., 1., 0.])
    """

    def __init__(self, policy: BanditPolicy, *, num_arms: int) -> None:
        super().__init__()
        check_policy("DisjointArms", policy, BanditPolicy)
        if policy.remembers or policy.carries_gamma or policy.normals_per_decision:
            raise ValueError(
                f"DisjointArms: policy must decide on means and widths alone, got {type(policy).__name__}; use "
                "SoftUCBPolicy ('current' or 'smooth'), SoftUCBPolicy.auto, LinUCB, EpsilonGreedy or SoftElim"
            )
        self.num_arms = check_integer("DisjointArms", "num_arms", num_arms, low=1)
        if isinstance(policy, AutoSoftUCB):
            policy.rows_per_group, policy.rows_are_arms = self.num_arms, True
        self.policy = policy
        self.batch_shape: tuple[int, ...] = ()
        self.reset()

    def reset(self, *, batch_shape: tuple[int, ...] = (), prior: GaussianPrior | Literal["keep"] | None = "keep") -> None:
        """Discard all statistics and start again.

        Args:
            batch_shape: one bandit, ``()``, or a batch of independent ones, ``(num_bandits,)``.
            prior: prior of every theta_k, as in ``policy.reset``.
        """
        check_batch_shape("DisjointArms.reset", batch_shape)
        if len(batch_shape) > 1:
            raise ValueError(f"DisjointArms.reset: batch_shape must be () or (num_bandits,), got {tuple(batch_shape)}")
        self.policy.reset(batch_shape=(self.num_arms * (batch_shape[0] if batch_shape else 1),), prior=prior)
        self.batch_shape = tuple(batch_shape)

    def forward(
        self,
        context: Tensor,  # (d,) or (*N, d); (N, d) with bandit; (B, d) for a batch of bandits
        *,
        mask: Tensor | None = None,  # (K,) or (*N, K)
        bandit: Tensor | None = None,  # (N,)
    ) -> Decision:
        """Decide on the arms, given the context of each request; changes nothing.

        Args:
            context: features of the requests. For one bandit, leading dims are requests; for a batch of bandits, one
                context per bandit, or per entry of ``bandit``.
            mask: True = allowed, at least one arm per row.
            bandit: bandits that decide; all of them by default.
        """
        where, policy = "DisjointArms", self.policy
        requests = self._check_context(where, context, bandit)
        if mask is not None:
            check_mask(where, mask, (*requests, self.num_arms), device=policy.device)
        decision = None
        if bandit is None and not self.batch_shape:
            decision = disjoint_fast_path.decide(where, policy, context, mask)
        if decision is None:
            decision = policy.decide(self._estimate(context, bandit), mask=mask)
        if isinstance(policy, SoftUCBPolicy):
            policy.watch.note(decision, policy)
        return decision

    def _check_context(self, where: str, context: Tensor, bandit: Tensor | None) -> torch.Size:
        policy = self.policy
        check_float_tensor(where, "context", context, dtype=policy.dtype, device=policy.device)
        requests = context.shape[:-1]
        fits = context.dim() >= 1 and context.shape[-1] == policy.dim
        if bandit is not None:
            check_bandit(where, bandit, self.batch_shape, device=policy.device)
            fits = fits and requests == bandit.shape
        elif self.batch_shape:
            fits = fits and requests == self.batch_shape
        if not fits:
            rows = tuple(self.batch_shape if bandit is None else bandit.shape)
            check_shape(where, "context", context.shape, False, f"({', '.join(map(str, rows)) or '*N'}, {policy.dim})")
        return requests

    def _states(self, bandit: Tensor | None) -> RidgeState:
        """Return the statistics of the arms of each bandit that decides: ``(K, ...)`` or ``(N, K, ...)``."""
        policy = self.policy
        rows = policy._rows(None).view(*self.batch_shape, self.num_arms, -1)
        return policy.layout.unpack(rows if bandit is None else rows[bandit])

    def _estimate(self, context: Tensor, bandit: Tensor | None) -> Estimate:
        policy, state = self.policy, self._states(bandit)
        scales = unpack_memory(state.memory) if isinstance(policy, AutoSoftUCB) else None
        b = state.b if scales is None else state.b - scales.offset.unsqueeze(-1) * scales.sum_x  # sum x (y - c)
        wide = context.double() if policy.prior is None else policy.prior.whiten(context.double())
        x = wide.unsqueeze(-2).unsqueeze(-2)  # (*N, 1, 1, d): one "arm" per row of statistics
        x = x.expand(*context.shape[:-1], *b.shape[-2:-1], 1, -1)
        mu_hat, width = (value.squeeze(-1) for value in _ridge_estimate(x, state.root, b))
        if scales is not None:
            of_offset = _offset_width(x, scales.offset_direction, scales.offset_variance).squeeze(-1)
            width = _joint_width(width, of_offset)
        sums = None
        if policy.keeps_sums:  # number of observations, residuals and log det add up over the arms
            sums = running_sums(state, policy.ridge_alpha).sum(-2).to(context.dtype)
        estimate = Estimate(
            mu_hat=mu_hat.to(context.dtype),
            width=width.to(context.dtype),
            num_observations=state.num_observations.sum(-1),
            gamma=state.gamma[..., 0],
            perturb=_no_draws,
            arms=context.unsqueeze(-2),
            root=state.root,
            memory=state.memory,
            running_sums=sums,
        )
        if scales is not None:
            head = type(scales)(*(value[..., 0, :] if value.dim() == b.dim() else value[..., 0] for value in scales))
            estimate = in_units(estimate, head)
        return estimate if policy.prior is None else with_prior(estimate, policy.prior, context.unsqueeze(-2))

    def update(
        self,
        context: Tensor,  # (*N, d)
        arm: Tensor,  # (*N,)
        reward: Tensor,  # (*N,)
        *,
        bandit: Tensor | None = None,  # (N,)
        discount: float = 1.0,
    ) -> None:
        """Learn from observed rewards. Takes effect as a whole or, on bad input, raises and changes nothing.

        Args:
            context: contexts of the requests, as in :meth:`forward`.
            arm: arms that were played.
            reward: observed rewards.
            bandit: bandits that the observations belong to; repeated ids are allowed.
            discount: share of its statistics that each arm which was played keeps, for rewards that drift.
        """
        where = "DisjointArms.update"
        requests = self._check_context(where, context, bandit)
        check_arm_ids(where, arm, requests, self.num_arms)
        if reward.shape != requests:
            check_shape(where, "reward", reward.shape, False, f"{tuple(requests)}, that of the requests")
        if discount == 1.0 and bandit is None and not self.batch_shape and not requests:
            check_float_tensor(where, "reward", reward, dtype=self.policy.dtype, device=self.policy.device)
            if disjoint_fast_path.update(self.policy, context, arm, reward):
                return
        first: Tensor | int = 0
        if self.batch_shape:
            owner = torch.arange(self.batch_shape[0], device=arm.device) if bandit is None else bandit
            first = owner * self.num_arms
        rows = (first + arm).reshape(-1)
        self.policy.update(context.reshape(-1, context.shape[-1]), reward.reshape(-1), bandit=rows, discount=discount)


def _no_draws(z: Tensor) -> Tensor:
    raise TypeError("DisjointArms: posterior draws are not available")
