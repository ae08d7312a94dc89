"""Default optimiser, learning rate and schedule for each estimator."""

from typing import NamedTuple

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler

from torch_softucb.learning.log_adam import RelativeAdam
from torch_softucb.policies import SoftUCBPolicy


class Optimisation(NamedTuple):
    """An optimiser and its scheduler.

    Attributes:
        optimizer: the optimiser.
        scheduler: its learning rate scheduler, stepped once per step; None keeps the rate constant.
    """

    optimizer: torch.optim.Optimizer
    scheduler: LRScheduler | None = None


_PAPER_LR, _DUAL_LR, _LOG_LR = 5.0, 0.25, 0.3


def uses_log_adam(policy: SoftUCBPolicy, estimator: str) -> bool:
    """Whether :class:`RelativeAdam` is the default optimiser, rather than SGD.

    With the paper's estimator a scalar beta moves by SGD, so that a step is the paper's beta <- beta + lr g_hat. Everything
    else has gradients whose scale depends on the rewards and takes multiplicative steps.
    """
    return estimator != "paper" or policy.beta_module is not None


def default_lr(policy: SoftUCBPolicy, estimator: str, *, auto_eta: bool = False) -> float:
    """Learning rate of the default optimiser.

    It is 5 for the paper's estimator with a fixed eta (its gradient is divided by T), 0.25 with a dual variable for eta, 0.3
    for the other estimators, and the module's own rate for a beta module.
    """
    if policy.beta_module is not None:
        return policy.beta_module.lr
    if estimator != "paper":
        return _LOG_LR
    return _DUAL_LR if auto_eta else _PAPER_LR


def default_optimizer(
    policy: SoftUCBPolicy, estimator: str, *, lr: float, steps: int | None = None
) -> torch.optim.Optimizer:
    """SGD or :class:`RelativeAdam` over what the policy learns; ``steps`` enables tail averaging."""
    if not uses_log_adam(policy, estimator):
        return torch.optim.SGD(policy.parameters(), lr=lr)
    return RelativeAdam.of(policy, lr=lr, steps=steps)


def default_scheduler(
    optimizer: torch.optim.Optimizer, estimator: str, *, steps: int, auto_eta: bool = False
) -> LRScheduler | None:
    """Return the default schedule: constant for ``paper``, falling to a fifth with a dual variable, else cosine to 0."""
    if estimator != "paper":
        return CosineAnnealingLR(optimizer, steps)
    return LinearLR(optimizer, 1.0, 0.2, total_iters=steps) if auto_eta else None


def default_optimisation(
    policy: SoftUCBPolicy, estimator: str, *, steps: int, lr: float | None = None, auto_eta: bool = False
) -> Optimisation:
    """Default optimiser and scheduler for a run of ``steps`` steps."""
    rate = default_lr(policy, estimator, auto_eta=auto_eta) if lr is None else lr
    optimizer = default_optimizer(policy, estimator, lr=rate, steps=steps)
    return Optimisation(optimizer, default_scheduler(optimizer, estimator, steps=steps, auto_eta=auto_eta))
