"""Beta that keeps learning while it serves (Eq. 15)."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from torch_softucb.checks import check_choice, check_finite, check_integer, check_number, check_shape
from torch_softucb.errors import NumericalError
from torch_softucb.functional.gradient import _reward_and_gradient
from torch_softucb.functional.objective import _sum_width
from torch_softucb.learning.dual import OnlineDual
from torch_softucb.learning.online import online_step
from torch_softucb.policies._checks import check_offered, check_policy
from torch_softucb.policies.decision import Decision
from torch_softucb.policies.guard import keep_values, load_whole
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.recommend._checks import check_dual, check_one_beta


class OnlineBeta(nn.Module):
    """Move a policy's beta after every batch of decisions: beta <- beta + lr times Eq. 15 (D10).

    N requests to one bandit count as N rounds that were played with one beta and move it by their mean. With statistics for
    many bandits (users), every bandit is a separate trajectory, and one beta learns from all of them.

    Args:
        policy: a policy with one beta for all bandits.
        horizon: T, the number of decisions per bandit that beta is learned for; afterwards beta no longer changes.
        eta: weight of the constraint. ``auto`` makes it a dual variable that finds the beta of ``target_coverage`` from the
            rewards, which must then be passed to :meth:`observe`.
        lr: learning rate; with ``auto``, a step is at most lr times the size of beta and of the estimates' errors.
        target_coverage: for ``eta="auto"``: the fraction of items for which |mu - mu_hat| <= beta width should hold.

    The position in the horizon and the running sums are in ``state_dict``. Changes are made under the policy's lock; a call
    that raises changes nothing.

    Example:
        >>> policy = SoftUCBPolicy(dim=2)
        >>> learner = OnlineBeta(policy, horizon=100)
        >>> learner.step(policy(torch.eye(2)))
        >>> policy.beta > 1  # nothing was eliminated: only the constraint pushes
        tensor(True)
        >>> learner = OnlineBeta(policy, horizon=100, eta="auto")
        >>> x, reward = torch.eye(2), torch.tensor([1.0, 0.0])
        >>> learner.observe(x, reward)  # before the policy learns from them
        >>> policy.update(x, reward)
    """

    past: Tensor
    decisions: Tensor

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
        self._policy = (policy,)  # in a tuple: the policy is not a submodule of its learner
        self.horizon = check_integer("OnlineBeta", "horizon", horizon, low=1)
        self.dual: OnlineDual | None = None
        self._eta = 0.0
        if isinstance(eta, str):
            check_choice("OnlineBeta", "eta", eta, ("auto",))
            self.dual = OnlineDual(target_coverage, beta=policy.beta.detach())
        else:
            self._eta = check_number("OnlineBeta", "eta", eta, low=0.0)
        self.lr = check_number("OnlineBeta", "lr", lr, low=0.0, open_low=True)
        self.register_buffer("past", torch.zeros((), dtype=policy.dtype, device=policy.device))
        self.register_buffer("decisions", torch.zeros((), dtype=torch.int64, device=policy.device))

    @property
    def eta(self) -> float:
        """Current weight of the constraint."""
        return self._eta if self.dual is None else self.dual.eta

    @property
    def coverage(self) -> Tensor:  # ()
        """Coverage of the current beta, estimated from the rewards so far; only with ``eta="auto"``."""
        return check_dual("OnlineBeta.coverage", self.dual).coverage(self._policy[0].beta.detach())

    @torch.inference_mode(False)
    @torch.no_grad()
    def observe(
        self,
        x: Tensor,  # (N, d) features of items that were shown: Served.x
        reward: Tensor,  # (N,)
        *,
        bandit: Tensor | None = None,  # (N,)
    ) -> None:
        """Record rewards for ``eta="auto"``, before ``feedback`` or ``policy.update`` receives them.

        Afterwards the policy would have learned from the rewards that it is supposed to predict.
        """
        dual = check_dual("OnlineBeta.observe", self.dual)
        (policy,) = self._policy
        predicted = policy(x.unsqueeze(-2), bandit=bandit)  # one request per item
        check_shape("OnlineBeta.observe", "reward", reward.shape, reward.shape == x.shape[:-1], f"{tuple(x.shape[:-1])}")
        check_finite("OnlineBeta.observe", "reward", reward)
        mu_hat, width = (value.squeeze(-1).reshape(-1) for value in (predicted.mu_hat, predicted.width))
        with policy.guard.lock:
            policy.guard.recover()
            undo = keep_values(dual.buffers())
            policy.guard.commit(lambda: dual.observe(mu_hat, width, reward.reshape(-1).to(mu_hat)), undo)

    def step(self, decision: Decision) -> None:
        """Move beta by a batch of decisions."""
        (policy,) = self._policy
        with policy.guard.lock:
            policy.guard.recover()
            undo = keep_values((*self.buffers(), policy.raw_beta))
            policy.guard.commit(lambda: self._step(policy, decision), undo)

    @torch.inference_mode(False)
    @torch.no_grad()
    def _step(self, policy: SoftUCBPolicy, decision: Decision) -> None:
        gamma = check_offered("OnlineBeta", "a gradient", decision.gamma, type(policy).__name__)
        slope = _reward_and_gradient(decision.probs, decision.mu_hat, decision.width, gamma)[1]
        bandits = policy.batch_shape.numel()
        if int(self.decisions) >= self.horizon * bandits:
            return
        t = min(self.horizon, math.ceil((int(self.decisions) + slope.numel()) / bandits))
        widths = _sum_width(decision.width, decision.mask).mean()
        before = self.past + slope.sum() / bandits - slope.mean()  # Eq. 15 adds the current round once more
        moved = online_step(
            policy.beta.detach(),
            slope.mean(),
            before,
            widths,
            t=t,
            horizon=self.horizon,
            eta=self._eta if self.dual is None else self.dual,
        )
        self.past.copy_(moved.past)
        self.decisions.add_(slope.numel())
        policy.raw_beta.add_(moved.gradient, alpha=self.lr)
        policy.project_()
        if not math.isfinite(float(policy.raw_beta)):
            raise NumericalError(
                f"OnlineBeta.step: beta would become {float(policy.raw_beta)}; nothing was changed; use a smaller lr than "
                f"{self.lr:g}"
            )

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load a state as a whole, or raise and change nothing; the arguments are those of ``torch.nn.Module``."""
        return load_whole(
            self._policy[0].guard, self, lambda: super(OnlineBeta, self).load_state_dict(state_dict, strict, assign)
        )
