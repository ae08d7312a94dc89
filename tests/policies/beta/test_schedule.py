"""Beta over time."""

import pytest
import torch

from tests.policies.beta.modules import D, problem_of
from torch_softucb import ScheduleBeta, SoftUCBPolicy
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.paper import paper


def test_a_schedule_of_one_number_learns_as_the_number_does(seeded):
    episode = Episode(problem_of(seeded), 5, 6)
    number, schedule = (SoftUCBPolicy(4, beta_init=start, dtype=D) for start in (0.7, ScheduleBeta(20, init=0.7, knots=2)))
    for policy in (number, schedule):
        paper(policy, episode, horizon=20, eta=0.01, record=()).loss.backward()
    summed = schedule.beta_module.log_beta.grad.sum() / 0.7  # d beta = beta d log beta
    torch.testing.assert_close(summed, number.raw_beta.grad, atol=1e-7, rtol=0)


def test_a_schedule_that_is_pushed_down_plays_greedily_and_never_at_random(seeded):
    """At beta = 0 nothing is eliminated and play is uniform (D1); less exploration must not lead there."""
    policy = SoftUCBPolicy(4, beta_init=ScheduleBeta(60, init=0.5), coldness="smooth", dtype=D)
    optimizer = torch.optim.SGD(policy.parameters(), lr=1.0)
    for _ in range(8):
        optimizer.zero_grad()
        policy.beta_module.log_beta.sum().backward()
        optimizer.step()
        policy.project_()
    with torch.no_grad():
        policy.update(torch.eye(4, dtype=D).repeat(20, 1), torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=D).repeat(20))
        decision = policy(torch.eye(4, dtype=D))
    assert 0 < decision.beta < 1e-3
    assert decision.probs[0] > 0.99


def test_between_the_knots_it_is_linear():
    schedule = ScheduleBeta(100, init=torch.tensor([1.0, 0.2, 0.6]))
    want = {0.0: 1.0, 25.0: 0.6, 50.0: 0.2, 75.0: 0.4, 100.0: 0.6, 1000.0: 0.6}
    got = schedule(torch.tensor(list(want)).unsqueeze(-1))
    torch.testing.assert_close(got.detach(), torch.tensor(list(want.values())))
    assert schedule.typical == pytest.approx(0.6)


def test_wrong_initial_values_are_refused():
    with pytest.raises(ValueError, match="init must be"):
        ScheduleBeta(10, init=torch.tensor([-1.0, 1.0]))
    with pytest.raises(ValueError, match="init must be finite"):
        ScheduleBeta(10, init=torch.tensor([1.0, float("nan")]))
    for init in (torch.tensor(1.0), torch.ones(2, 3), torch.ones(0)):
        with pytest.raises(ValueError, match="init must have shape"):
            ScheduleBeta(10, init=init)
    with pytest.raises(TypeError, match="init must be a floating point tensor"):
        ScheduleBeta(10, init=torch.tensor([1, 2]))


def test_the_logarithms_at_the_knots_are_the_parameters():
    schedule = ScheduleBeta(10, init=0.5)
    assert [parameter is schedule.log_beta for parameter in schedule.log_parameters] == [True]
    assert schedule.positive_parameters == []
    torch.testing.assert_close(schedule.log_beta.detach(), torch.full((5,), 0.5).log())
