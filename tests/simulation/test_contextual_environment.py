"""What is offered and what is true of it, by hand."""

from dataclasses import replace

import pytest
import torch

from torch_softucb import BanditProblem, ContextualProblem, contextual_problem, synthetic_problem
from torch_softucb.rng import normals, uniforms
from torch_softucb.simulation.contextual_environment import ContextualEnvironment, with_all_candidates

D = torch.double
ITEMS = torch.arange(8, dtype=D).view(4, 2)
MEANS = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.8, 0.7, 0.6, 0.5]], dtype=D)
KEY = torch.tensor(3)


def _environment(**settings):
    return ContextualEnvironment(contextual_problem(ITEMS, means=MEANS, **({"candidates": 3} | settings)))


def test_candidates_of_the_first_round_of_a_block_are_shown():
    environment = _environment()
    environment.offer(torch.tensor([[[3, 0, 1], [1, 2, 0]], [[0, 1, 2], [0, 1, 2]]], dtype=torch.int32), None)
    environment.show(0)
    assert environment.mask is None
    assert environment.features[0].equal(ITEMS[[3, 0, 1]])
    assert environment.present_means.tolist() == [[0.4, 0.1, 0.2], [0.7, 0.6, 0.8]]
    assert environment.best.tolist() == [0.4, 0.8]
    arm = torch.tensor([2, 1])
    assert environment.item_of(arm).tolist() == [1, 2]
    assert environment.feature_of(arm).equal(ITEMS[[1, 2]])
    assert environment.mean_of(arm).tolist() == [0.2, 0.6]


def test_empty_places_are_masked_and_never_the_best():
    environment = _environment()
    environment.offer(torch.tensor([[[1, -1, 0], [-1, 3, -1]]]), None)
    environment.show(0)
    assert environment.mask.tolist() == [[True, False, True], [False, True, False]]
    assert environment.best.tolist() == [0.2, 0.5]


def test_items_of_each_bandit():
    own = torch.stack((ITEMS, -ITEMS))
    environment = ContextualEnvironment(contextual_problem(own, means=MEANS, candidates=2))
    environment.offer(torch.tensor([[[1, 2], [1, 2]]]), None)
    environment.show(0)
    assert environment.features.equal(own[:, 1:3])
    assert environment.features_by_item(torch.tensor([1, 0, 1]), torch.tensor([3, 3, 0])).equal(
        torch.stack((-ITEMS[3], ITEMS[3], -ITEMS[0]))
    )


def test_drift_reaches_the_candidates():
    """A quarter turn after one round: the rotated means."""
    world = contextual_problem(ITEMS, means=MEANS, candidates=2)
    world = replace(world, rotated_means=MEANS.flip(0), drift_rate=torch.pi / 2)
    environment = ContextualEnvironment(world)
    environment.offer(torch.tensor([[[0, 1], [2, 3]]]), None)
    environment.apply_drift(1)
    environment.show(1)
    torch.testing.assert_close(environment.present_means, torch.tensor([[0.8, 0.7], [0.3, 0.4]], dtype=D))
    torch.testing.assert_close(environment.best, torch.tensor([0.8, 0.4], dtype=D))


def test_delays_are_drawn_or_fixed():
    fixed = _environment(delay=2)
    fixed.offer(torch.zeros(1, 2, 3, dtype=torch.long), None)
    assert int(fixed.delay_of(0)) == 2
    drawn = _environment(delay=torch.tensor([0.5, 0.5]))
    drawn.offer(torch.zeros(2, 2, 3, dtype=torch.long), torch.tensor([[0, 1], [1, 2]]))
    assert drawn.delay_of(1).tolist() == [1, 2]


def test_noise_and_rewards():
    ids, mean = torch.arange(2), torch.tensor([0.3, 0.9], dtype=D)
    u = uniforms(KEY, ids, start=4, count=3, dtype=D)
    gaussian = _environment(noise_std=0.2)
    assert gaussian.noise(KEY, start=4, count=3).equal(normals(KEY, ids, start=4, count=3, dtype=D) * 0.2)
    assert gaussian.reward(mean, torch.tensor([0.1, -0.1], dtype=D)).equal(mean + torch.tensor([0.1, -0.1], dtype=D))
    coins = _environment(reward="bernoulli")
    assert coins.noise(KEY, start=4, count=3).equal(u)
    assert coins.reward(mean, torch.tensor([0.29, 0.9], dtype=D)).tolist() == [1.0, 0.0]  # u < mean
    residuals = torch.tensor([5.0, 6.0, 7.0], dtype=D)
    drawn = _environment(reward="empirical", residuals=residuals).noise(KEY, start=4, count=3)
    assert drawn.tolist() == [[5.0 + int(3 * value) for value in row] for row in u.tolist()]


def test_float32_draws_the_same_residuals():
    """10^5 of them: 24 bits would not do."""
    residuals = torch.arange(1e5, dtype=D)
    world = contextual_problem(ITEMS, means=MEANS, reward="empirical", residuals=residuals)
    long, short = (ContextualEnvironment(world.to(dtype)).noise(KEY, start=0, count=1000) for dtype in (D, torch.float32))
    assert short.double().equal(long)


def test_fixed_arms_become_a_problem_that_offers_all_of_them(seeded):
    problem = synthetic_problem(num_problems=3, num_arms=4, dim=2, drift_rate=0.1, generator=seeded(0))[1:]
    world = with_all_candidates(problem)
    assert isinstance(world, ContextualProblem)
    assert with_all_candidates(world) is world
    assert (world.slots, world.max_delay, world.reward) == (4, 0, "gaussian")
    for name in ("arms", "means", "ids", "rotated_means", "noise_std", "drift_rate"):
        value = getattr(problem, name)
        assert getattr(world, name) is value
    masked = BanditProblem(ITEMS, MEANS, 0.5, torch.tensor([True, False, True, True]))
    assert with_all_candidates(masked).mask is masked.mask


@pytest.mark.parametrize("masked", [False, True])
def test_regret_is_relative_to_the_best_candidate(masked):
    environment = _environment()
    environment.offer(torch.tensor([[[0, 1, -1 if masked else 2], [0, 1, 2]]]), None)
    environment.show(0)
    probs = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], dtype=D)

    class Chosen:
        pass

    Chosen.probs = probs
    # bandit 0: 0.15 against 0.2 or 0.3; bandit 1: 0.6 against 0.8
    torch.testing.assert_close(
        environment.regret(Chosen, None), torch.tensor([0.05 if masked else 0.15, 0.2], dtype=D), atol=1e-12, rtol=0
    )
