"""Simulations with changing candidates are the plain loop over a policy's own methods, on every backend and world."""

from dataclasses import replace

import pytest
import torch

from tests.simulation.cases import needs_compiler
from tests.simulation.contextual_cases import (
    DELAYED,
    DIM,
    POLICIES,
    WORLDS,
    D,
    assert_plays_like_the_loop,
    play,
    policy_of,
    prior_of,
    world_of,
)
from torch_softucb import (
    EXP3,
    BootstrapThompson,
    GaussianPrior,
    LinUCB,
    SoftUCBPolicy,
    contextual_problem,
    rollout,
    synthetic_problem,
)
from torch_softucb.simulation.contextual_arms import player_of, starting_player
from torch_softucb.simulation.contextual_environment import with_all_candidates

BACKENDS = [False, pytest.param("native", marks=needs_compiler)]


@pytest.mark.parametrize("compile", BACKENDS)
@pytest.mark.parametrize("policy", ["smooth", "auto"])
@pytest.mark.parametrize("world", WORLDS)
def test_every_world_is_the_plain_loop(world, policy, compile):
    assert_plays_like_the_loop(policy_of(policy), world_of(world), compile)


@pytest.mark.parametrize("compile", BACKENDS)
@pytest.mark.parametrize("world", ["sets", "late"])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_is_the_plain_loop(policy, world, compile):
    if policy == "lagged" and world in DELAYED:
        pytest.skip("refused, see test_what_cannot_play_changing_candidates_is_refused")
    assert_plays_like_the_loop(policy_of(policy), world_of(world), compile)


@pytest.mark.parametrize("compile", BACKENDS)
@pytest.mark.parametrize(("discount", "with_prior"), [(0.9, False), (1.0, True), (0.9, True)])
@pytest.mark.parametrize("world", ["own items", "lost rewards"])
@pytest.mark.parametrize("policy", ["auto", "LinTS", "LinUCB, running"])
def test_forgetting_and_priors_are_the_plain_loop(policy, world, discount, with_prior, compile):
    prior = prior_of() if with_prior else None
    assert_plays_like_the_loop(policy_of(policy), world_of(world), compile, discount=discount, prior=prior)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("policy", "world", "with_prior"), [("smooth", "sets", True), ("auto", "random delays", False)])
def test_compiled_rounds_are_the_plain_loop(policy, world, with_prior):
    prior = prior_of() if with_prior else None
    assert_plays_like_the_loop(policy_of(policy), world_of(world), True, prior=prior, horizon=12)


@pytest.mark.parametrize("compile", BACKENDS)
def test_policy_s_own_prior_is_that_of_start(compile):
    own = play(policy_of("smooth", prior=prior_of()), world_of("uniform"), compile=compile)
    given = play(policy_of("smooth"), world_of("uniform"), compile=compile, start=prior_of())
    assert own[0].equal(given[0])


# --- fixed arms


@pytest.mark.parametrize("compile", BACKENDS)
@pytest.mark.parametrize(("policy", "masked"), [(name, i % 2 == 1) for i, name in enumerate(POLICIES)])
def test_fixed_arms_played_as_candidates_play_as_before(policy, masked, compile, seeded):
    problem = synthetic_problem(num_problems=19, num_arms=7, dim=DIM, dtype=D, drift_rate=0.03, generator=seeded(0))
    if masked:
        mask = torch.rand(19, 7, generator=seeded(1)) > 0.5
        mask[:, 2] = True
        problem = replace(problem, mask=mask)
    runs = [
        rollout(policy_of(policy), each, horizon=30, generator=seeded(3), record=["arm"], record_every=2, compile=compile)
        for each in (problem, with_all_candidates(problem))
    ]
    assert runs[0].records["arm"].equal(runs[1].records["arm"])
    torch.testing.assert_close(runs[1].regret, runs[0].regret, atol=1e-9, rtol=0)


def test_start_from_a_policy_without_observations_changes_nothing(seeded):
    problem = synthetic_problem(num_problems=5, num_arms=7, dim=DIM, dtype=D, generator=seeded(0))
    policy = policy_of("smooth")
    plain, started = (
        rollout(policy, problem, horizon=30, generator=seeded(3), record=["arm"], start=start)
        for start in (None, policy_of("smooth"))
    )
    assert plain.records["arm"].equal(started.records["arm"])
    torch.testing.assert_close(started.regret, plain.regret, atol=1e-10, rtol=0)


# --- start=


def _taught(name, batch=(), **settings):
    """A policy with 6 observations per bandit."""
    policy = policy_of(name, **settings)
    policy.reset(batch_shape=batch)
    generator = torch.Generator().manual_seed(11)
    for _ in range(6):
        x, noise = (torch.randn((*batch, *shape), generator=generator, dtype=D) for shape in ((DIM,), ()))
        policy.update(x, x.sum(-1) + 0.3 * noise)
    return policy


@pytest.mark.parametrize("compile", BACKENDS)
@pytest.mark.parametrize("batch", [(), (4,)])
@pytest.mark.parametrize("name", ["smooth", "auto", "LinUCB, running", "ScheduleBeta"])
def test_start_continues_from_the_statistics_of_a_policy(name, batch, compile):
    """The first decision is the policy's own; it is not changed; and eager and native rounds are the same."""
    taught, world = _taught(name, batch), world_of("uniform")
    before = taught.statistics.clone()
    trajectory = rollout(policy_of(name), world, horizon=8, generator=torch.Generator().manual_seed(5), start=taught)
    eager, after = play(policy_of(name), world, horizon=8, start=taught)
    own, statistics = play(policy_of(name), world, horizon=8, start=taught, compile=compile)
    torch.testing.assert_close(own, trajectory.regret, atol=1e-10, rtol=0)
    torch.testing.assert_close(statistics, after, atol=1e-9, rtol=1e-9)
    assert taught.statistics.equal(before)
    assert statistics[..., -2].eq(14).all()
    player = starting_player(policy_of(name), world, taught)
    assert player.statistics.equal(before.expand(4, -1))
    assert eager.shape == (8, 4)


@pytest.mark.parametrize("compile", BACKENDS)
def test_trajectories_may_start_with_different_numbers_of_observations(compile):
    taught = _taught("ScheduleBeta", (4,))
    taught.update(torch.ones(3, DIM, dtype=D), torch.zeros(3, dtype=D), bandit=torch.tensor([1, 3, 3]))
    eager = play(policy_of("ScheduleBeta"), world_of("late"), start=taught)
    other = play(policy_of("ScheduleBeta"), world_of("late"), start=taught, compile=compile)
    for got, want in zip(other, eager, strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=1e-9)
    assert eager[1][:, -2].sub(26 - 3 + 6).tolist() == [0, 1, 0, 2]


def test_what_cannot_be_a_start_is_refused():
    world, policy = world_of("uniform"), policy_of("smooth")
    with pytest.raises(TypeError, match="start must be a GaussianPrior or a policy, got str"):
        rollout(policy, world, horizon=2, start="posterior")
    for other in (
        LinUCB(DIM, dtype=D),
        policy_of("smooth", ridge_alpha=2.0),
        policy_of("smooth", prior=prior_of()),
        policy_of("SituationBeta"),
        SoftUCBPolicy(DIM + 1, dtype=D),
    ):
        with pytest.raises(ValueError, match="start must be a SoftUCBPolicy with dim 3, the same prior or ridge_alpha"):
            rollout(policy, world, horizon=2, start=other)
    with pytest.raises(ValueError, match=r"start must have one bandit, or \(4,\) like the problems, got \(5,\)"):
        rollout(policy, world, horizon=2, start=_taught("smooth", (5,)))
    with pytest.raises(ValueError, match="prior"):
        rollout(policy, world, horizon=2, start=GaussianPrior.ridge(DIM + 1))


def test_what_cannot_play_changing_candidates_is_refused():
    for policy in (EXP3(DIM, 5, dtype=D), BootstrapThompson(DIM, 5, dtype=D)):
        with pytest.raises(ValueError, match=r"keeps numbers per arm, .* got changing candidates; use another policy"):
            rollout(policy, world_of("uniform"), horizon=2)
        with pytest.raises(ValueError, match="got delays"):
            rollout(policy, world_of("all items", delay=2), horizon=2)
    with pytest.raises(ValueError, match="coldness 'lagged' of SoftUCBPolicy needs rewards that arrive at once, got delays"):
        rollout(policy_of("lagged"), world_of("late"), horizon=2)


def test_a_player_shares_parameters_and_has_its_own_statistics():
    policy = policy_of("smooth")
    player = player_of(policy)
    assert player.raw_beta is policy.raw_beta
    assert player.guard is not policy.guard
    player.update(torch.ones(DIM, dtype=D), torch.tensor(1.0, dtype=D))
    assert policy.statistics[-2] == 0
    assert player.statistics[-2] == 1


def test_one_bandit_and_several_batch_dimensions(seeded):
    items, theta = torch.randn(9, DIM, generator=seeded(0), dtype=D), torch.randn(6, DIM, generator=seeded(1), dtype=D)
    flat = contextual_problem(items, theta=theta, candidates=4, delay=2)
    square = contextual_problem(items, theta=theta.view(2, 3, DIM), candidates=4, delay=2)
    whole = play(policy_of("smooth"), flat)
    assert play(policy_of("smooth"), square)[0].equal(whole[0].view(26, 2, 3))
    torch.testing.assert_close(play(policy_of("smooth"), flat[4])[0], whole[0][:, 4], atol=1e-12, rtol=0)
