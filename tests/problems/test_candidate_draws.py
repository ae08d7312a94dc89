"""Which candidates are drawn: distinct, with the stated probabilities, whatever the batch; and how late rewards are."""

import itertools
from dataclasses import replace

import pytest
import torch

from tests.simulation.cases import needs_compiler
from tests.statistics_checks import assert_frequencies, every_seed, frequency_power
from torch_softucb import contextual_problem
from torch_softucb.problems import candidate_draws
from torch_softucb.problems.candidate_draws import allowed_items, draw_candidates, draw_delays
from torch_softucb.simulation.offers import Offers

KEY = torch.tensor(77)


def _world(count=6, items=7, **settings):
    return contextual_problem(torch.eye(items), means=torch.zeros(count, items), **({"candidates": 3} | settings))


MASK = torch.tensor([[True] * 7, [False] * 5 + [True] * 2, [True, False] * 3 + [True]]).repeat(2, 1)
WORLDS = {
    "uniform": {},
    "all": {"candidates": None},
    "all, masked": {"candidates": None, "mask": MASK},
    "masks": {"mask": MASK},
    "weights": {"weights": torch.arange(7.0)},
    "masked weights": {"weights": torch.arange(7.0), "mask": MASK},
    "sets": {"candidates": torch.tensor([[0, 1, -1], [4, 5, 6], [-1, -1, 3]])},
}


@pytest.mark.parametrize("name", WORLDS)
def test_candidates_are_distinct_allowed_and_as_many_as_there_are(name):
    world = _world(**WORLDS[name])
    drawn = draw_candidates(world, KEY, start=0, count=50)
    assert drawn.shape == (50, 6, world.slots)
    mask = torch.ones(6, 7, dtype=torch.bool) if world.mask is None else world.mask
    for (_, bandit), row in zip(itertools.product(range(50), range(6)), drawn.flatten(0, 1).tolist(), strict=True):
        shown = [item for item in row if item >= 0]
        assert len(set(shown)) == len(shown)
        assert all(mask[bandit, item] for item in shown)
        available = int((mask[bandit] & (world.weights > 0 if world.weights is not None else True)).sum())
        assert len(shown) == min(world.slots, available) or row in WORLDS["sets"]["candidates"].tolist()


@pytest.mark.parametrize("name", WORLDS)
def test_draws_depend_on_id_and_round_alone(name, monkeypatch):
    world = _world(**WORLDS[name])
    whole = draw_candidates(world, KEY, start=0, count=20)
    assert draw_candidates(world, KEY, start=7, count=5).equal(whole[7:12])
    assert draw_candidates(world[2:5], KEY, start=0, count=20).equal(whole[:, 2:5])
    monkeypatch.setattr(candidate_draws, "_NUMBERS", 100)  # weighted draws in several parts
    assert draw_candidates(world, KEY, start=0, count=20).equal(whole)
    if world.mask is None:
        moved = replace(world, ids=world.ids.flip(0))
        assert draw_candidates(moved, KEY, start=0, count=20).equal(whole.flip(1))


@needs_compiler
@pytest.mark.parametrize("name", WORLDS)
def test_the_kernel_draws_exactly_the_same(name):
    world = _world(**WORLDS[name])
    for start, count in ((0, 9), (123456789, 3)):
        want = Offers(world, KEY, native=False).draw(start, count)[0]
        got = Offers(world, KEY, native=True).draw(start, count)[0]
        assert got.long().equal(want)


@every_seed
def test_every_subset_is_equally_likely(seed):
    """20 subsets of 3 out of 6 items, 60,000 draws by chi-square. False alarms: 1e-6."""
    world = _world(600, items=6)
    drawn = draw_candidates(world, KEY + seed, start=0, count=100).sort(-1).values.view(-1, 3)
    code = drawn @ torch.tensor([36, 6, 1])
    subsets = [36 * a + 6 * b + c for a, b, c in itertools.combinations(range(6), 3)]
    counts = [int((code == subset).sum()) for subset in subsets]
    assert sum(counts) == 60_000
    assert_frequencies(counts, [1 / 20] * 20)
    uneven = [1.1 / 20] * 10 + [0.9 / 20] * 10
    assert frequency_power([1 / 20] * 20, uneven, 60_000) > 0.99


@every_seed
def test_weighted_draws_are_successive_sampling(seed):
    """Ordered pairs of 4 items: p(i, j) = w_i / W * w_j / (W - w_i). 60,000 draws by chi-square. False alarms: 1e-6."""
    weights = [4.0, 3.0, 2.0, 1.0]
    world = _world(600, items=4, candidates=2, weights=torch.tensor(weights))
    drawn = draw_candidates(world, KEY + seed, start=0, count=100).view(-1, 2)
    pairs = list(itertools.permutations(range(4), 2))
    law = [weights[i] / 10 * weights[j] / (10 - weights[i]) for i, j in pairs]
    counts = [int(((drawn[:, 0] == i) & (drawn[:, 1] == j)).sum()) for i, j in pairs]
    assert_frequencies(counts, law)
    wrong = [weights[i] / 10 * weights[j] / 10 for i, j in pairs]  # with replacement, repeated pairs rejected
    wrong = [p / sum(wrong) for p in wrong]
    assert frequency_power(law, wrong, 60_000) > 0.99


@every_seed
def test_sets_are_drawn_equally_often(seed):
    """Three sets, 60,000 draws by chi-square. False alarms: 1e-6."""
    sets = torch.tensor([[0, 1], [2, 3], [4, -1]])
    drawn = draw_candidates(_world(600, candidates=sets), KEY + seed, start=0, count=100)[..., 0]
    assert_frequencies([int((drawn == first).sum()) for first in (0, 2, 4)], [1 / 3] * 3)


@every_seed
def test_delays_follow_their_probabilities(seed):
    """0, 1, 2 rounds late with 0.5, 0, 0.3, lost with 0.2; 60,000 draws by chi-square. False alarms: 1e-6."""
    world = _world(600, delay=torch.tensor([0.5, 0.0, 0.3], dtype=torch.double))
    late = draw_delays(world, KEY + seed, start=0, count=100)
    assert_frequencies([int((late == value).sum()) for value in range(4)], [0.5, 0.0, 0.3, 0.2])
    assert draw_delays(world[3:7], KEY + seed, start=10, count=5).equal(late[10:15, 3:7])


def test_probabilities_that_add_up_to_1_lose_nothing(monkeypatch):
    """0.1 ten times adds up to less than 1 in floating point, by more than the largest random number."""
    monkeypatch.setattr(candidate_draws, "uniforms", lambda *_, **__: torch.tensor([[1 - 2**-53]], dtype=torch.double))
    for total, late in ((1.0, 9), (0.999, 10)):
        world = _world(1, delay=torch.full((10,), total / 10, dtype=torch.double))
        assert draw_delays(world, KEY, start=0, count=1).tolist() == [[late]]


def test_allowed_items_come_first():
    order, available = allowed_items(_world(mask=MASK))
    assert available.tolist() == [7, 2, 4] * 2
    assert order[1].tolist() == [5, 6, 0, 1, 2, 3, 4]
    assert allowed_items(_world())[0] is None


def test_the_unit_of_the_weights_does_not_matter():
    arms, means = torch.eye(7).double(), torch.zeros(3, 7).double()
    draws = [
        draw_candidates(
            contextual_problem(arms, means=means, candidates=3, weights=unit * torch.arange(1.0, 8).double()),
            KEY,
            start=0,
            count=9,
        )
        for unit in (1.0, 1e-310, 1e300)
    ]
    assert draws[0].equal(draws[2])
    assert bool((draws[1] >= 0).all())
