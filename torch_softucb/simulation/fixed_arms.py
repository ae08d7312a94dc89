"""Estimates of fixed arms, updated in place after every observation rather than solved for again.

With w = root^T x_a, u = root w = V^-1 x_a, z = X u and s = 1 + |w|^2, an observation (a, y) changes width^2 by -z^2 / s and
mu_hat by z (y - mu_hat_a) / s: O(Kd + d^2) per round.
"""

from functools import partial

import torch
from torch import Tensor

from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.simulation.arm_features import ArmFeatures
from torch_softucb.simulation.scales import NOISE_STD, scaled_estimate
from torch_softucb.simulation.state import PlayState


class FixedArms:
    """Read and update the estimates in a :class:`PlayState` by rank-one updates.

    Args:
        features: features of the arms.
        policy: the policy that plays.
    """

    discount = 1.0

    def __init__(self, features: ArmFeatures, policy: BanditPolicy) -> None:
        self.features, self.policy = features, policy

    def estimate(self, state: PlayState, num_observations: Tensor) -> Estimate:  # (), ()
        """Return what a policy decides on, as ``(*B, K)`` views of the state.

        ``num_observations`` is an argument, although the state has it, because torch.compile must see a tensor.
        """
        estimate = Estimate(
            mu_hat=state.mu_hat.movedim(0, -1),
            width=state.width_sq.sqrt().movedim(0, -1),
            num_observations=num_observations,
            gamma=state.gamma,
            perturb=partial(self._perturb, state.root),
            arms=self.features.given,
            root=state.root.movedim((0, 1), (-2, -1)),
            memory=state.memory,
            running_sums=None if state.running_sums is None else state.running_sums[:3].movedim(0, -1),
        )
        return estimate if state.scales is None else scaled_estimate(estimate, state.scales)

    def _perturb(self, root: Tensor, z: Tensor) -> Tensor:  # (d, d, *B), (*B, d) -> (*B, K)
        return self.features.project(self._times_root(root, z.movedim(-1, 0).contiguous())).movedim(0, -1)

    def _times_root(self, root: Tensor, z: Tensor) -> Tensor:  # (d, d, *B), (d, *B) -> (d, *B)
        return self.features.workspace.multiply(root, z).sum(1)

    def learn(self, state: PlayState, decision: Decision, arm: Tensor, reward: Tensor) -> tuple[Tensor, Tensor]:  # (*B,)
        """Update the state with the reward of a round; returns what :meth:`update` returns."""
        gathered = self.update(state, arm, reward)
        if self.policy.remembers:
            state.memory = self.policy.remember(state.memory, arm, reward, decision)
        if decision.next_gamma is not None:
            state.gamma = decision.next_gamma
        return gathered

    def update(self, state: PlayState, arm: Tensor, reward: Tensor) -> tuple[Tensor, Tensor]:  # (*B,), (*B,)
        """Update the estimates with one reward per trajectory.

        Returns:
            The features of the arms and the scaled residuals. torch.compile computes outputs once; otherwise it would
            gather the features again for every entry of ``root``.
        """
        x = self.features.gather(arm)
        w = self.features.workspace.multiply(state.root, x.unsqueeze(1)).sum(0)  # root^T x
        u = self._times_root(state.root, w)  # V^-1 x
        z = self.features.project(u)
        s = 1 + w.square().sum(0)
        step = (reward - state.mu_hat.gather(0, arm.unsqueeze(0)).squeeze(0)) / s
        if state.scales is not None:  # while the noise is not known, arms are ranked by width alone
            step = torch.where(state.scales[NOISE_STD] > 0, step, torch.zeros_like(step))
        if state.running_sums is not None:  # in the order of RUNNING_SUMS
            state.running_sums += torch.stack((torch.ones_like(s), step.square() * s, s.log(), torch.zeros_like(s)))
        state.mu_hat.addcmul_(z, step)
        state.width_sq.addcmul_(z, z / -s)
        state.root.addcmul_(u.unsqueeze(1), w / (s + s.sqrt()), value=-1)  # functional.ridge_root_update
        return x, step
