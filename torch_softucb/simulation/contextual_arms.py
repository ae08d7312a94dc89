"""Estimates of candidates that change from round to round: the policy's own, from its own statistics."""

import copy

import torch
from torch import Tensor

from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.guard import Guard
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.problems.contextual import ContextualProblem
from torch_softucb.simulation.contextual_environment import ContextualEnvironment
from torch_softucb.simulation.contextual_state import ContextualState


def player_of(policy: BanditPolicy) -> BanditPolicy:
    """Return a policy with the same parameters and separate statistics."""
    player = copy.copy(policy)
    player._buffers = dict(policy._buffers)
    player.guard = Guard()
    return player


def starting_player(
    policy: BanditPolicy, problem: ContextualProblem, start: GaussianPrior | BanditPolicy | None
) -> BanditPolicy:
    """Return a player with the statistics that the trajectories begin with.

    Args:
        policy: the policy that plays.
        problem: the problems, one trajectory each.
        start: as in :func:`torch_softucb.rollout`.

    Raises:
        ValueError, TypeError: if the policy cannot play these problems, or ``start`` does not fit them.
    """
    name, batch = type(policy).__name__, tuple(problem.batch_shape)
    late, changing = problem.delay is not None, problem.num_candidates is not None or problem.sets is not None
    if policy.remembers and (late or changing):
        raise ValueError(
            f"rollout: {name} keeps numbers per arm, so it needs fixed arms whose rewards arrive at once, got "
            f"{'delays' if late else 'changing candidates'}; use another policy"
        )
    if policy.carries_gamma and late:
        raise ValueError(f"rollout: coldness 'lagged' of {name} needs rewards that arrive at once, got delays; use 'smooth'")
    player = player_of(policy)
    if start is None or isinstance(start, GaussianPrior):
        player.reset(batch_shape=batch, **({} if start is None else {"prior": start}))
        return player
    if not isinstance(start, BanditPolicy):
        raise TypeError(f"rollout: start must be a GaussianPrior or a policy, got {type(start).__name__}")
    same = start.prior == policy.prior and (policy.prior is not None or start.ridge_alpha == policy.ridge_alpha)
    if type(start) is not type(policy) or start.layout.size != policy.layout.size or not same:
        raise ValueError(
            f"rollout: start must be a {name} with dim {policy.dim}, the same prior or ridge_alpha, and a beta of the same "
            f"type, got {start!r}"
        )
    rows = start.statistics.detach()
    if tuple(start.batch_shape) not in ((), batch):
        raise ValueError(
            f"rollout: start must have one bandit, or {batch} like the problems, got {tuple(start.batch_shape)}"
        )
    player._buffers["statistics"] = rows.expand(*batch, -1).clone()
    return player


class ContextualArms:
    """Decide and learn by the methods of the policy itself, on the statistics in a :class:`ContextualState`.

    Args:
        player: the policy, from :func:`player_of`.
        environment: what is offered, and what has happened.
        discount: weight that earlier observations keep per update.
    """

    def __init__(self, player: BanditPolicy, environment: ContextualEnvironment, *, discount: float) -> None:
        self.player, self.environment, self.discount = player, environment, discount

    def estimate(self, state: ContextualState, num_observations: Tensor) -> Estimate:  # (*B,)
        """Return what a policy decides on; ``num_observations`` is not needed, as the statistics contain it."""
        self.player._buffers["statistics"] = state.statistics
        return self.player.estimate("rollout", self.environment.features)

    def learn(self, state: ContextualState, decision: Decision, arm: Tensor, reward: Tensor) -> None:  # (*B,), (*B,)
        """Update the statistics with the rewards that arrive before the next round."""
        problem, environment, player = self.environment.problem, self.environment, self.player
        if state.waiting is None:
            carried = {"decision": decision, "arm": arm} if player.remembers else {"decision": decision}
            x = environment.feature_of(arm)
            change = player.updated(state.statistics, x, reward, discount=self.discount, **carried)
            state.statistics = change.new
            return
        item, waiting = environment.item_of(arm), state.waiting
        late = environment.delay_of(0)
        now, slots = state.t, problem.max_delay + 1
        own = torch.stack((item.double(), reward.double(), (now + 1 + late).double().expand_as(reward)), dim=-1)
        waiting[..., now % slots, :] = own
        order = torch.arange(now + 1 - slots, now + 1, device=reward.device) % slots  # the oldest first
        arrived = waiting.view(-1, slots, waiting.shape[-1])[:, order]  # (B, D + 1, 3)
        bandit, place = (arrived[..., 2] == now + 1).nonzero(as_tuple=True)
        if len(bandit):
            items, rewards = arrived[bandit, place, 0].long(), arrived[bandit, place, 1].to(reward.dtype)
            rows = state.statistics.view(-1, state.statistics.shape[-1])
            x = environment.features_by_item(bandit, items)
            change = player.updated(rows, x, rewards, bandit=bandit, discount=self.discount)
            new = change.new if change.rows is None else rows.index_copy(0, change.rows, change.new)
            state.statistics = new.view_as(state.statistics)
