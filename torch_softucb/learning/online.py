"""SoftUCB online (Algorithm 3): the step of Eq. 15, shared by simulations, Lightning and served heads."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_softucb.functional.objective import _online_gradient
from torch_softucb.learning.dual import OnlineDual
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.simulation.engine import Simulation


class OnlineStep(NamedTuple):
    """One step of Eq. 15.

    Attributes:
        gradient: ``(*B,)``, ascent direction of beta.
        past: ``(*B,)``, sum of the reward gradients so far, for the next step (D10).
        reward: ``(*B,)``, reward part of the gradient.
        penalty: ``(*B,)``, penalty part.
    """

    gradient: Tensor  # (*B,)
    past: Tensor  # (*B,)
    reward: Tensor  # (*B,)
    penalty: Tensor  # (*B,)


class OnlineRun(NamedTuple):
    """A run of Algorithm 3.

    Attributes:
        regret: ``(T, *B)``, cumulative expected regret.
        beta: ``(T, *B)``, beta of each round.
    """

    regret: Tensor  # (T, *B)
    beta: Tensor  # (T, *B)


def online_step(
    beta: Tensor,  # (*B,)
    reward_gradient: Tensor,  # (*B,) of the current round
    past: Tensor,  # (*B,) sum of those of the rounds before
    widths: Tensor,  # (*B,) sum of the current round's widths
    *,
    t: int,
    horizon: int,
    eta: float | OnlineDual,
) -> OnlineStep:
    """Return the step of Eq. 15 for round ``t``, counted from 1; a dual variable for eta is stepped too."""
    penalty = widths / horizon
    if isinstance(eta, OnlineDual):
        moved = _online_gradient(reward_gradient, past, widths, t, horizon, 0.0)
        direction = eta.climb(beta, moved.gradient, penalty)
        return OnlineStep(direction, moved.past, moved.gradient, eta.log_eta.exp() * penalty)
    moved = _online_gradient(reward_gradient, past, widths, t, horizon, eta)
    penalty = eta * penalty
    return OnlineStep(moved.gradient, moved.past, moved.gradient - penalty, penalty)


@torch.no_grad()
def run_online(
    policy: SoftUCBPolicy, simulation: Simulation, *, horizon: int, eta: float = 1.0, lr: float = 0.1
) -> OnlineRun:
    """Play ``horizon`` rounds of Algorithm 3: beta moves by ``lr`` times Eq. 15 after every round.

    Args:
        policy: policy with one beta per trajectory or one for all; beta is changed in place.
        simulation: simulation of this policy with ``gradient=True``.
        horizon: T.
        eta: weight of the constraint.
        lr: step size.
    """
    past = torch.zeros_like(policy.raw_beta)
    regrets, betas = [], []
    for play in simulation.play(horizon, recorded=lambda t: False, stretch=1):
        assert play.gradient is not None
        terms = play.gradient
        betas.append(policy.raw_beta.clone())
        step = online_step(policy.beta, terms.reward, past, terms.penalty, t=play.t + 1, horizon=horizon, eta=eta)
        past = step.past
        policy.raw_beta.add_(step.gradient, alpha=lr)
        policy.project_()
        regrets.append(play.regret)
    return OnlineRun(torch.cat(regrets).cumsum(0), torch.stack(betas))
