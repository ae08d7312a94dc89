"""Evolution strategies against a plain loop over the pairs."""

import copy

import pytest
import torch

from torch_softucb import AutoSoftUCB, BanditProblem, SoftUCBPolicy, SummaryBeta, synthetic_problem
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.evolution import STEP, MovedBeta, evolution
from torch_softucb.rng import mixed_seed

D = torch.double


def _policy():
    torch.manual_seed(0)
    return AutoSoftUCB(3, beta_init=SummaryBeta(horizon=30, init=1.0), dtype=D)


def _episode(count=6):
    problem = synthetic_problem(num_problems=count, num_arms=5, dim=3, generator=torch.Generator().manual_seed(1), dtype=D)
    return Episode(problem, 2, 3)


def test_the_gradient_is_that_of_a_loop_over_the_pairs():
    policy, episode, pairs = _policy(), _episode(), 3
    signal = evolution(policy, episode, horizon=30)
    signal.loss.backward()
    generator = torch.Generator().manual_seed(mixed_seed(3, 3))
    names = [name for name, _ in policy.beta_module.named_parameters()]
    shapes = [parameter.shape for parameter in policy.parameters()]
    moves = [STEP * torch.randn(pairs, *shape, generator=generator) for shape in shapes]
    want = [torch.zeros(shape, dtype=D) for shape in shapes]
    for pair in range(pairs):
        rewards = []
        for sign in (1, -1):
            moved = copy.deepcopy(policy)
            with torch.no_grad():
                for parameter, move in zip(moved.parameters(), moves, strict=True):
                    parameter += sign * move[pair]
            played = episode.play(moved, horizon=30, problem=episode.problem[pair : pair + 1])
            rewards.append(-played.regret.mean())
        for total, move in zip(want, moves, strict=True):
            total += (rewards[0] - rewards[1]) / (2 * STEP**2) * move[pair] / pairs
    for name, parameter, gradient in zip(names, policy.parameters(), want, strict=True):
        torch.testing.assert_close(parameter.grad, -gradient, msg=lambda text, name=name: f"{name}: {text}")


def test_each_trajectory_has_the_beta_of_its_own_parameters():
    module = _policy().beta_module
    moves = {name: torch.randn(4, *value.shape).to(value) for name, value in module.named_parameters()}
    situation = torch.rand(4, len(module.inputs), dtype=D)
    with torch.no_grad():
        got = MovedBeta(module, moves)(situation)
        for row in range(4):
            one = copy.deepcopy(module)
            for name, value in one.named_parameters():
                value += moves[name][row]
            torch.testing.assert_close(got[row], one(situation[row]))


def test_far_too_much_exploration_is_reduced():
    """Beta 30 sigma on easy problems: every bias below is better, and one step goes there."""
    policy = AutoSoftUCB(3, beta_init=SummaryBeta(horizon=60, init=30.0))
    problem = synthetic_problem(
        num_problems=256, num_arms=5, dim=3, noise_std=0.3, generator=torch.Generator().manual_seed(1)
    )
    evolution(policy, Episode(problem, 2, 3), horizon=60).loss.backward()
    assert policy.beta_module.linear.bias.grad.item() > 0


def test_the_native_backend_gives_the_same_gradient():
    pytest.importorskip("ninja")
    gradients = []
    for compile in (False, "native"):
        policy = _policy()
        evolution(policy, _episode(32), horizon=30, compile=compile).loss.backward()
        gradients.append([parameter.grad for parameter in policy.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_what_it_cannot_learn_is_refused():
    with pytest.raises(
        ValueError, match=r"must have a network over the situation.*got a number; use estimator='trajectory'"
    ):
        evolution(SoftUCBPolicy(3, dtype=D), _episode(), horizon=5)
    learned = AutoSoftUCB(3, beta_init=SummaryBeta(), learn_delta=True, dtype=D)
    with pytest.raises(ValueError, match="and a learned delta"):
        evolution(learned, _episode(), horizon=5)
    single = BanditProblem(torch.eye(3, dtype=D), torch.rand(3, dtype=D))
    with pytest.raises(ValueError, match=r"at least two problems are needed, got a batch of shape \(\)"):
        evolution(_policy(), Episode(single, 1, 2), horizon=5)
