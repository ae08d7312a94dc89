"""From a batch of trajectories to a gradient: one autograd function, several closed forms.

An estimator plays a batch of trajectories and returns the objective together with the slopes of its closed form
(:class:`Played`). :class:`TrajectoryReward` turns that into an ordinary torch scalar: its forward pass plays, its backward
pass applies the slopes to whatever produces beta and delta. A trainer minimises ``-reward``, calls ``backward`` and needs
nothing else.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from torch_softucb.learning.dual import Dual
from torch_softucb.learning.episode import Episode
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.simulation.trajectory import Trajectory


class Slopes(NamedTuple):
    """Derivatives of the objective that an estimator found; either ``beta`` or ``parameters`` is set.

    Attributes:
        beta: ``(n, *B)``, derivative in the beta of each round and trajectory. The objective averages over rounds and
            trajectories. ``n`` is 1 when one beta serves all rounds.
        delta_logit: ``(n, *B)``, the same for the logit of delta, when delta is learned.
        parameters: one derivative per parameter of the policy, in the order of ``policy.parameters()``.
    """

    beta: Tensor | None = None  # (n, *B)
    delta_logit: Tensor | None = None  # (n, *B)
    parameters: tuple[Tensor, ...] | None = None


class Played(NamedTuple):
    """A batch of trajectories, the value of the objective and its slopes.

    Attributes:
        objective: ``()``, the objective, averaged over rounds and trajectories.
        slopes: its derivatives.
        reward_gradient: ``()``, reward part of the derivative in beta, for logging.
        penalty_gradient: ``()``, penalty part, for logging.
        trajectory: the trajectories.
    """

    objective: Tensor  # ()
    slopes: Slopes
    reward_gradient: Tensor  # ()
    penalty_gradient: Tensor  # ()
    trajectory: Trajectory


class Signal(NamedTuple):
    """What a trainer needs from one batch.

    Attributes:
        loss: ``()``, the negative objective; ``loss.backward()`` gives every parameter its gradient.
        reward_gradient: ``()``, reward part of the derivative in beta, divided by T, mean over trajectories.
        penalty_gradient: ``()``, penalty part, divided and averaged in the same way.
        trajectory: the trajectories behind it.
    """

    loss: Tensor  # ()
    reward_gradient: Tensor  # ()
    penalty_gradient: Tensor  # ()
    trajectory: Trajectory


class TrajectoryReward(torch.autograd.Function):
    """Objective of a batch of trajectories as a differentiable function of a policy's parameters.

    Forward calls ``play`` and returns the objective and what was played. Backward is the estimator's closed form: it
    multiplies the slopes by the derivative of beta (and of delta's logit) in each parameter.
    """

    @staticmethod
    def forward(ctx: Any, play: Callable[[], Played], policy: SoftUCBPolicy, *parameters: Tensor) -> tuple[Tensor, Played]:
        """Play, and keep the slopes for backward."""
        played = play()
        trajectory = played.trajectory
        ctx.policy, ctx.slopes, ctx.parameters = policy, played.slopes, parameters
        ctx.save_for_backward(*parameters)  # backward differentiates what produces beta: torch notices changes in between
        ctx.situation, ctx.dims = trajectory.situation, trajectory.regret.dim()
        return played.objective.clone(), played

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: object) -> tuple[Tensor | None, ...]:
        """Return the gradient of every parameter."""
        slopes: Slopes = ctx.slopes
        _ = ctx.saved_tensors
        if slopes.parameters is not None:
            return None, None, *(grad * slope for slope in slopes.parameters)
        assert slopes.beta is not None
        with torch.enable_grad():
            pairs = [(ctx.policy.beta_along(ctx.situation, ctx.dims), slopes.beta)]
            if slopes.delta_logit is not None:
                pairs.append((ctx.policy.delta_logit, slopes.delta_logit))
            pairs = [(value, slope) for value, slope in pairs if value.requires_grad]  # frozen ones have no gradient
            outputs = [value for value, _ in pairs]
            directions = [_direction(value, slope, grad) for value, slope in pairs]
            learned = [parameter for parameter in ctx.parameters if parameter.requires_grad]
            found = iter(torch.autograd.grad(outputs, learned, directions, allow_unused=True))
        return None, None, *(next(found) if parameter.requires_grad else None for parameter in ctx.parameters)


def _direction(value: Tensor, slope: Tensor, grad: Tensor) -> Tensor:  # () or broadcasts to (n, *B); (n, *B); ()
    """Return the gradient of the objective in ``value``: slopes over their number, summed to its shape."""
    if not value.dim():
        return grad * slope.mean()
    return (grad / slope.numel() * slope).sum_to_size(value.shape)


class Estimator:
    """A gradient estimator with the name that trainers and configs use for it.

    Args:
        name: name in trainers and configs.
        play: plays an episode; called as ``play(policy, episode, horizon=, eta=, record=, compile=)``.
    """

    def __init__(self, name: str, play: Callable[..., Played]) -> None:
        self.name, self.play = name, play
        self.__doc__ = play.__doc__

    def __call__(
        self,
        policy: SoftUCBPolicy,
        episode: Episode,
        *,
        horizon: int,
        eta: float | Dual = 0.0,
        record: Sequence[str] = (),
        compile: bool | str = False,
    ) -> Signal:
        """Play an episode and return the loss whose backward pass is this estimator.

        Args:
            policy: the policy that plays and learns.
            episode: problems and random numbers.
            horizon: T, rounds per trajectory.
            eta: weight of the constraint, or the dual variable that adapts it; only ``paper`` uses it.
            record: quantities to record in sixteen of the rounds; see :func:`torch_softucb.rollout`.
            compile: backend; see :func:`torch_softucb.rollout`.
        """
        play = partial(self.play, policy, episode, horizon=horizon, eta=eta, record=record, compile=compile)
        reward, played = TrajectoryReward.apply(play, policy, *policy.parameters())  # type: ignore[no-untyped-call]
        return Signal(-reward, played.reward_gradient, played.penalty_gradient, played.trajectory)
