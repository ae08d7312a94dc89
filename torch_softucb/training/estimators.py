"""How a batch of trajectories becomes a gradient of the policy's parameters: one interface, chosen by name.

An estimator takes a policy and an episode, plays, and returns a :class:`Signal` whose ``loss`` carries the gradient by
autograd; the optimiser and Lightning see nothing else.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.training.common_random_numbers import common_random_numbers
from torch_softucb.training.data import Episode
from torch_softucb.training.dual import Dual
from torch_softucb.training.signals import Signal
from torch_softucb.training.trajectory import trajectory as whole_trajectory
from torch_softucb.types import Trajectory


def paper(
    policy: SoftUCBPolicy,
    episode: Episode,
    *,
    horizon: int,
    eta: float | Dual,
    record: Sequence[str],
    compile: bool | str = False,
) -> Signal:
    """Eq. 13 with eta, divided by T and averaged over trajectories (departures D3, D4).

    With a dual variable for eta the slope is normalised: its sign is Eq. 13's, its size at most 1.
    """
    dual = isinstance(eta, Dual)
    trajectory = episode.play(policy, horizon=horizon, gradient=True, record=record, scores=dual, compile=compile)
    terms = trajectory.gradient
    assert terms is not None
    beta = policy.beta
    if isinstance(eta, Dual):
        now = eta.weigh(trajectory.scores["coverage"].mean())
        slope = F.normalised_slope(terms.reward.mean(), terms.penalty.mean(), now) * (beta - beta.detach())
        penalty = now * terms.penalty
    else:
        penalty = eta * terms.penalty
        slope = ((terms.reward + penalty) * (beta - beta.detach())).mean()  # value 0, gradient g_hat
    value = (terms.value + penalty * beta.detach()).mean()
    return Signal(-(value + slope), terms.reward.mean(), penalty.mean(), trajectory)


ESTIMATORS: dict[str, Callable[..., Signal]] = {
    "paper": paper,
    "trajectory": whole_trajectory,
    "common_random_numbers": common_random_numbers,
}


def mean_record(trajectory: Trajectory, name: str) -> Tensor:
    return trajectory.records[name].to(torch.get_default_dtype()).mean()
