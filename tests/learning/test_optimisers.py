"""Defaults by estimator: which optimiser, which rate, which schedule."""

import pytest
import torch

from torch_softucb import ScheduleBeta, SegmentBeta, SituationBeta, SoftUCBPolicy
from torch_softucb.learning import RelativeAdam
from torch_softucb.learning.optimisers import default_lr, default_optimizer, default_scheduler, uses_log_adam


@pytest.mark.parametrize(
    ("beta", "estimator", "auto_eta", "rate"),
    [
        (1.0, "paper", False, 5.0),
        (1.0, "paper", True, 0.25),
        (1.0, "trajectory", False, 0.3),
        (1.0, "trajectory", True, 0.3),
        (1.0, "common_random_numbers", False, 0.3),
        (ScheduleBeta(10), "paper", False, 0.1),
        (ScheduleBeta(10), "trajectory", False, 0.1),
        (SegmentBeta(torch.tensor([0, 1])), "trajectory", False, 0.3),
        (SituationBeta(horizon=10), "trajectory", False, 0.02),
    ],
)
def test_rates(beta, estimator, auto_eta, rate):
    policy = SoftUCBPolicy(2, beta_init=beta)
    assert default_lr(policy, estimator, auto_eta=auto_eta) == rate
    optimizer = default_optimizer(policy, estimator, lr=rate, steps=10)
    assert isinstance(optimizer, RelativeAdam) == uses_log_adam(policy, estimator)
    assert isinstance(optimizer, torch.optim.SGD) == (estimator == "paper" and policy.beta_module is None)


@pytest.mark.parametrize(
    ("estimator", "auto_eta", "last"), [("paper", False, 1.0), ("paper", True, 0.2), ("trajectory", False, 0.0)]
)
def test_schedules(estimator, auto_eta, last):
    policy = SoftUCBPolicy(2)
    optimizer = default_optimizer(policy, estimator, lr=1.0)
    scheduler = default_scheduler(optimizer, estimator, steps=8, auto_eta=auto_eta)
    if scheduler is None:
        assert last == 1.0
        return
    for _ in range(8):
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(last, abs=1e-12)
