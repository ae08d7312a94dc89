"""True means, drift and regret."""

import torch

from tests.simulation.cases import NUM_ARMS, problem_of
from torch_softucb import functional as F
from torch_softucb.policies.decision import Decision
from torch_softucb.simulation.environment import Environment


def test_drift_sets_the_means_and_the_best_allowed_one(seeded):
    problem = problem_of("masked drift", seeded)
    environment, before = Environment(problem), problem.means.clone()
    for t in (0, 7):
        environment.apply_drift(t)
        torch.testing.assert_close(environment.present_means, problem.means_at(t))
        allowed = problem.means_at(t).masked_fill(~problem.mask, -torch.inf)
        torch.testing.assert_close(environment.best, allowed.amax(-1))
    assert problem.means.equal(before)


def test_without_drift_nothing_moves(seeded):
    environment = Environment(problem_of("masked", seeded))
    before = environment.means.clone()
    environment.apply_drift(5)
    assert environment.means.equal(before)


def test_regret_is_expected_where_probabilities_are_known_and_realised_elsewhere(seeded):
    problem = problem_of("masked", seeded)
    environment, shape = Environment(problem), problem.means.shape
    probs = torch.rand(shape, dtype=torch.double, generator=seeded(4)) * problem.mask
    probs = probs / probs.sum(-1, keepdim=True)
    zeros, arm = torch.zeros(shape, dtype=torch.double), torch.full((38,), 3)
    mean = environment.mean_of(arm)
    assert mean.equal(problem.means[:, 3])
    regret = environment.regret(Decision(probs, zeros, zeros, zeros), mean)
    torch.testing.assert_close(regret, F.expected_regret(probs, problem.means, mask=problem.mask))
    sampled = environment.regret(Decision(None, zeros, zeros, zeros), mean)
    torch.testing.assert_close(sampled, problem.best_mean - problem.means[:, 3])


def test_the_layout_is_contiguous_with_the_batch_innermost(seeded):
    environment = Environment(problem_of("two dims", seeded))
    assert environment.means.shape == (NUM_ARMS, 2, 19)
    assert environment.means.is_contiguous()
    assert environment.noise_std.shape == (2, 19)
