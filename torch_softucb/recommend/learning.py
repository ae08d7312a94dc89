"""Beta that keeps learning while it serves (Eq. 15)."""

import math

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_integer, check_number, check_offered, check_one_beta, check_policy
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.types import Decision


class OnlineBeta(nn.Module):
    """Moves a policy's beta after every batch of decisions: beta <- beta + lr times Eq. 15 (D10).

    N requests to one bandit count as N rounds that were played with one beta: they move it by their mean. With statistics
    for many bandits (users) every bandit is a trajectory of its own, and one beta learns from all of them.

    Args:
        policy: with one beta for all.
        horizon: T, the number of decisions for each bandit that this beta is to learn for; after it, beta stays.
        eta: weight of the constraint.
        lr: learning rate.

    Its place in the horizon and the running sum are in ``state_dict``.

    Example:
        >>> policy = SoftUCBPolicy(dim=2)
        >>> learner = OnlineBeta(policy, horizon=100)
        >>> learner.step(policy(torch.eye(2)))
        >>> policy.beta > 1  # nothing was eliminated: only the constraint pushes
        tensor(True)
    """

    past: Tensor
    decisions: Tensor

    def __init__(self, policy: SoftUCBPolicy, *, horizon: int, eta: float = 1.0, lr: float = 0.1) -> None:
        super().__init__()
        check_policy("OnlineBeta", policy, SoftUCBPolicy)
        check_one_beta("OnlineBeta", policy.raw_beta.shape)
        self._policy = (policy,)  # not a child: its parameters stay where they are
        self.horizon = check_integer("OnlineBeta", "horizon", horizon, low=1)
        self.eta = check_number("OnlineBeta", "eta", eta, low=0.0)
        self.lr = check_number("OnlineBeta", "lr", lr, low=0.0, open_low=True)
        self.register_buffer("past", torch.zeros((), dtype=policy.dtype, device=policy.device))
        self.register_buffer("decisions", torch.zeros((), dtype=torch.int64, device=policy.device))

    @torch.no_grad()
    def step(self, decision: Decision) -> None:
        """Move beta by a batch of decisions."""
        (policy,) = self._policy
        gamma = check_offered("OnlineBeta", "a gradient", decision.gamma, type(policy).__name__)
        slope = F.reward_and_gradient(decision.probs, decision.mu_hat, decision.width, gamma)[1]
        bandits = policy.batch_shape.numel()
        if int(self.decisions) >= self.horizon * bandits:
            return
        t = min(self.horizon, math.ceil((int(self.decisions) + slope.numel()) / bandits))
        widths = F.sum_width(decision.width, mask=decision.mask).mean()
        before = self.past + slope.sum() / bandits - slope.mean()  # Eq. 15 adds the present round's once more
        moved = F.online_gradient(slope.mean(), before, widths, t=t, horizon=self.horizon, eta=self.eta)
        self.past.copy_(moved.past)
        self.decisions.add_(slope.numel())
        policy.raw_beta.add_(moved.gradient, alpha=self.lr)
        policy.project_()
