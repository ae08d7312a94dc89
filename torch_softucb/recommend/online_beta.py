"""Beta that keeps learning while it serves (Eq. 15)."""

import math

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_choice, check_finite, check_integer, check_number, check_shape
from torch_softucb.functional.gradient import _reward_and_gradient
from torch_softucb.functional.prequential import _add_residuals
from torch_softucb.policies._checks import check_offered, check_policy
from torch_softucb.policies.decision import Decision
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.recommend._checks import check_dual, check_one_beta


class OnlineBeta(nn.Module):
    """Moves a policy's beta after every batch of decisions: beta <- beta + lr times Eq. 15 (D10).

    N requests to one bandit count as N rounds that were played with one beta: they move it by their mean. With statistics
    for many bandits (users) every bandit is a trajectory of its own, and one beta learns from all of them.

    Args:
        policy: with one beta for all.
        horizon: T, the number of decisions for each bandit that this beta is to learn for; after it, beta stays.
        eta: weight of the constraint. ``auto`` makes it a dual variable that finds the beta of ``target_coverage`` from the
            rewards, which :meth:`observe` must then be shown.
        lr: learning rate; with ``auto``, a step is at most lr times the size of beta and of the estimates' errors.
        target_coverage: for ``eta="auto"``: the share of items in which |mu - mu_hat| <= beta width is to hold.

    Its place in the horizon and its running sums are in ``state_dict``.

    Example:
        >>> policy = SoftUCBPolicy(dim=2)
        >>> learner = OnlineBeta(policy, horizon=100)
        >>> learner.step(policy(torch.eye(2)))
        >>> policy.beta > 1  # nothing was eliminated: only the constraint pushes
        tensor(True)
        >>> learner = OnlineBeta(policy, horizon=100, eta="auto")
        >>> x, reward = torch.eye(2), torch.tensor([1.0, 0.0])
        >>> learner.observe(x, reward)  # before the policy learns of them
        >>> policy.update(x, reward)
    """

    past: Tensor
    decisions: Tensor
    log_eta: Tensor
    weight: Tensor
    squares: Tensor

    def __init__(
        self,
        policy: SoftUCBPolicy,
        *,
        horizon: int,
        eta: float | str = 1.0,
        lr: float = 0.1,
        target_coverage: float = 0.85,
    ) -> None:
        super().__init__()
        check_policy("OnlineBeta", policy, SoftUCBPolicy)
        check_one_beta("OnlineBeta", policy.raw_beta)
        self._policy = (policy,)  # not a child: its parameters stay where they are
        self.horizon = check_integer("OnlineBeta", "horizon", horizon, low=1)
        self.auto = isinstance(eta, str)
        if isinstance(eta, str):
            check_choice("OnlineBeta", "eta", eta, ("auto",))
            self.target = check_number("OnlineBeta", "target_coverage", target_coverage, low=0.0, high=1.0, open_low=True)
            start = F.no_residuals(policy.beta.detach(), self.target)
            self.register_buffer("log_eta", torch.zeros_like(start.weight))
            self.register_buffer("weight", start.weight)
            self.register_buffer("squares", start.squares)
        else:
            self._eta = check_number("OnlineBeta", "eta", eta, low=0.0)
        self.lr = check_number("OnlineBeta", "lr", lr, low=0.0, open_low=True)
        self.register_buffer("past", torch.zeros((), dtype=policy.dtype, device=policy.device))
        self.register_buffer("decisions", torch.zeros((), dtype=torch.int64, device=policy.device))

    @property
    def eta(self) -> float:
        return float(self.log_eta.exp()) if self.auto else self._eta

    @property
    def coverage(self) -> Tensor:  # ()
        """With ``eta="auto"``: the share that the present beta covers, as the rewards so far tell it."""
        check_dual("OnlineBeta.coverage", self.auto)
        return F.estimated_coverage(self._policy[0].beta.detach(), self._kappa)

    @property
    def _kappa(self) -> Tensor:
        return F.error_scale(F.Residuals(self.weight, self.squares))

    @torch.inference_mode(False)
    @torch.no_grad()
    def observe(
        self,
        x: Tensor,  # (N, d) features of items that were shown: Served.x
        reward: Tensor,  # (N,)
        *,
        bandit: Tensor | None = None,  # (N,)
    ) -> None:
        """With ``eta="auto"``: rewards that came, before ``feedback`` or ``policy.update`` is told of them.

        Afterwards the policy would foretell what it has seen.
        """
        check_dual("OnlineBeta.observe", self.auto)
        (policy,) = self._policy
        predicted = policy(x.unsqueeze(-2), bandit=bandit)  # every item by itself
        check_shape("OnlineBeta.observe", "reward", reward.shape, reward.shape == x.shape[:-1], f"{tuple(x.shape[:-1])}")
        check_finite("OnlineBeta.observe", "reward", reward)
        mu_hat, width = (value.squeeze(-1).reshape(-1) for value in (predicted.mu_hat, predicted.width))
        sums = _add_residuals(F.Residuals(self.weight, self.squares), mu_hat, width, reward.reshape(-1).to(mu_hat))
        self.weight.copy_(sums.weight)
        self.squares.copy_(sums.squares)

    @torch.no_grad()
    def step(self, decision: Decision) -> None:
        """Move beta by a batch of decisions."""
        (policy,) = self._policy
        gamma = check_offered("OnlineBeta", "a gradient", decision.gamma, type(policy).__name__)
        slope = _reward_and_gradient(decision.probs, decision.mu_hat, decision.width, gamma)[1]
        bandits = policy.batch_shape.numel()
        if int(self.decisions) >= self.horizon * bandits:
            return
        t = min(self.horizon, math.ceil((int(self.decisions) + slope.numel()) / bandits))
        widths = F.sum_width(decision.width, mask=decision.mask).mean()
        before = self.past + slope.sum() / bandits - slope.mean()  # Eq. 15 adds the present round's once more
        eta = 0.0 if self.auto else self._eta  # a dual's part comes below
        moved = F.online_gradient(slope.mean(), before, widths, t=t, horizon=self.horizon, eta=eta)
        self.past.copy_(moved.past)
        self.decisions.add_(slope.numel())
        gradient = moved.gradient
        if self.auto:
            beta, penalty = policy.beta.detach(), widths / self.horizon
            gradient, log_eta = F.online_dual_step(beta, self._kappa, gradient, penalty, self.log_eta, target=self.target)
            self.log_eta.copy_(log_eta)
        policy.raw_beta.add_(gradient, alpha=self.lr)
        policy.project_()
