"""Candidates and delays of a simulation: in blocks, derived from the noise key, independent of batch and backend."""

import pytest
import torch

from tests.simulation.cases import needs_compiler
from tests.simulation.contextual_cases import POLICIES, WORLDS, play, policy_of, world_of
from torch_softucb.problems.candidate_draws import draw_candidates, draw_delays
from torch_softucb.rng import derived_key
from torch_softucb.simulation import offers
from torch_softucb.simulation.offers import Offers

KEY = torch.tensor(5)
BACKENDS = [False, pytest.param("native", marks=needs_compiler)]


def test_candidates_and_delays_have_streams_of_their_own():
    world = world_of("random delays")
    candidates, delays = Offers(world, KEY, native=False).draw(3, 4)
    assert candidates.equal(draw_candidates(world, derived_key(KEY, "candidates"), start=3, count=4))
    assert delays.equal(draw_delays(world, derived_key(KEY, "delay"), start=3, count=4))
    assert Offers(world_of("late"), KEY, native=False).draw(0, 2)[1] is None


@needs_compiler
@pytest.mark.parametrize("name", WORLDS)
def test_both_ways_of_drawing_agree(name):
    world = world_of(name)
    (want, late), (got, other) = (Offers(world, KEY, native=native).draw(11, 7) for native in (False, True))
    assert got.long().equal(want)
    assert late is other is None or late.equal(other)


def test_blocks_are_consecutive_rounds():
    world = world_of("random delays")
    drawn = Offers(world, KEY, native=False)
    candidates, delays = drawn.draw(4, 6)
    blocks = drawn.blocks(4, [1, 3, 2])
    assert [len(block) for block, _ in blocks] == [1, 3, 2]
    assert torch.cat([block for block, _ in blocks]).equal(candidates)
    assert torch.cat([late for _, late in blocks]).equal(delays)
    assert [late for _, late in Offers(world_of("uniform"), KEY, native=False).blocks(0, [2, 1])] == [None, None]


def test_few_rounds_are_drawn_at_once_for_many_trajectories(monkeypatch):
    drawn = Offers(world_of("uniform"), KEY, native=False)  # 4 trajectories of 5 candidates
    assert drawn.rounds_at_once == 64
    monkeypatch.setattr(offers, "_SETS", 61)
    assert drawn.rounds_at_once == 3
    monkeypatch.setattr(offers, "_SETS", 1)
    assert drawn.rounds_at_once == 1


@pytest.mark.parametrize("compile", BACKENDS)
@pytest.mark.parametrize("name", ["masks", "weights", "sets", "lost rewards", "bernoulli", "empirical"])
def test_a_trajectory_does_not_depend_on_the_others_in_the_batch(name, compile, monkeypatch):
    world, policy = world_of(name), policy_of("auto")
    whole = play(policy, world, compile=compile)
    parts = [play(policy, world[rows], compile=compile) for rows in (slice(1), slice(1, 4))]
    torch.testing.assert_close(torch.cat([regret for regret, _ in parts], 1), whole[0], atol=1e-12, rtol=0)
    torch.testing.assert_close(torch.cat([rows for _, rows in parts]), whole[1], atol=1e-10, rtol=1e-10)
    monkeypatch.setattr(offers, "_SETS", 61)
    split = play(policy, world, compile=compile)
    torch.testing.assert_close(split[0], whole[0], atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["smooth", "LinTS"])
def test_all_policies_are_offered_the_same_and_draws_of_arms_are_others(name):
    """Offers follow the noise generator only."""
    from torch_softucb.simulation.engine import Simulation

    assert name in POLICIES
    seeded = torch.Generator().manual_seed
    offered = []
    for policy, action in (("smooth", 1), (name, 2)):
        torch.manual_seed(0)
        simulation = Simulation(policy_of(policy), world_of("uniform"), generator=seeded(action), noise_generator=seeded(7))
        offered.append(torch.cat([simulation.environment.candidates for _ in simulation.play(5)]))
    assert offered[0].equal(offered[1])
