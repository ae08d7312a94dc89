"""Eq. 13: what the estimator refuses, and how a dual variable normalises it. Its value by loops is in test_base.py."""

import pytest
import torch

from torch_softucb import SoftUCBPolicy, synthetic_problem
from torch_softucb.learning import Dual, Episode
from torch_softucb.learning.estimators.paper import paper


@pytest.fixture
def episode(seeded):
    return Episode(synthetic_problem(num_problems=16, num_arms=5, dim=3, dtype=torch.double, generator=seeded(0)), 1, 2)


def test_a_learned_delta_is_refused(episode):
    policy = SoftUCBPolicy(3, learn_delta=True, dtype=torch.double)
    with pytest.raises(ValueError, match=r"delta must be fixed, because Eq\. 13 holds gamma constant"):
        paper(policy, episode, horizon=5)


@pytest.mark.parametrize("eta_init", [1e-6, 1e-2, 1e2])
def test_with_a_dual_variable_a_slope_is_at_most_1(episode, eta_init):
    policy = SoftUCBPolicy(3, beta_init=0.4, dtype=torch.double)
    dual = Dual(0.85, eta_init=eta_init).double()
    before = dual.log_eta.clone()
    signal = paper(policy, episode, horizon=20, eta=dual)
    signal.loss.backward()
    assert 0 < abs(policy.raw_beta.grad.item()) <= 1 + 1e-12
    assert dual.log_eta.equal(before)  # the trainer takes its step
    dual.step()
    assert not dual.log_eta.equal(before)


def test_the_two_parts_add_up(episode):
    policy = SoftUCBPolicy(3, beta_init=0.4, dtype=torch.double)
    signal = paper(policy, episode, horizon=20, eta=0.01)
    signal.loss.backward()
    assert -policy.raw_beta.grad.item() == pytest.approx(float(signal.reward_gradient + signal.penalty_gradient), abs=1e-14)
    without = paper(policy, episode, horizon=20, eta=0.0)
    assert float(without.penalty_gradient) == 0
    assert float(without.reward_gradient) == float(signal.reward_gradient)
