"""Bandits with changing candidates: how they are built, what they keep, and what is refused."""

from dataclasses import replace

import pytest
import torch

from torch_softucb import ContextualProblem, contextual_problem
from torch_softucb.problems._checks import MAX_DELAY

D = torch.double
ITEMS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=D)
THETA = torch.tensor([[0.5, 0.25], [-1.0, 0.0]], dtype=D)


def _world(**settings):
    return contextual_problem(ITEMS, **({"theta": THETA, "candidates": 2} | settings))


def test_means_are_offset_plus_the_linear_part_plus_misfit():
    world = _world(offset=2.0, misfit=torch.tensor([0.0, 0.0, 0.1], dtype=D))
    want = torch.tensor([[2.5, 2.25, 2.85], [1.0, 2.0, 1.1]], dtype=D)
    torch.testing.assert_close(world.means, want)
    own = _world(offset=2.0, misfit=torch.tensor([[0.0, 0.0, 0.1], [0.0, 0.0, 0.1]], dtype=D))
    assert own.means.equal(world.means)
    assert contextual_problem(ITEMS.expand(2, 3, 2), theta=THETA).means.equal(_world().means)
    assert contextual_problem(ITEMS, means=want).means is want


def test_slots_and_delays():
    assert _world().slots == 2
    assert _world(candidates=None).slots == 3
    assert _world(candidates=torch.tensor([[0, -1, 2, 1]])).slots == 4
    assert [_world(delay=late).delay is None for late in (0, torch.ones(1), 1)] == [True, True, False]
    late, never, mixed = _world(delay=3), _world(delay=torch.tensor([0.5])), _world(delay=torch.tensor([0.5, 0.5]))
    assert [(w.max_delay, w.fixed_delay) for w in (_world(), late, never, mixed)] == [(0, 0), (3, 3), (0, None), (1, None)]


def test_the_noise_follows_from_the_rewards():
    assert _world().noise_std == 0.5
    assert _world(noise_std=0.2).noise_std == 0.2
    # residuals -1, 1: deviation 1. Means 0.5 and 0.2: variances 0.25 and 0.16, mean 0.205
    assert _world(reward="empirical", residuals=torch.tensor([-1.0, 1.0], dtype=D)).noise_std == 1.0
    coins = contextual_problem(ITEMS[:2], means=torch.tensor([0.5, 0.2], dtype=D), reward="bernoulli")
    assert coins.noise_std == pytest.approx(0.205**0.5)


def test_rows_copies_and_conversions_keep_what_belongs_to_all():
    world = _world(
        candidates=torch.tensor([[0, 1], [2, -1]]),
        delay=torch.tensor([0.5, 0.25]),
        mask=torch.tensor([True, True, True]),
        reward="empirical",
        residuals=torch.tensor([0.1, -0.1], dtype=D),
    )
    for other in (world[1:], world[1], world.repeat(3), world.to(torch.float32)):
        assert isinstance(other, ContextualProblem)
        assert other.sets.equal(world.sets)
        assert other.delay.shape == (2,)
        assert other.residuals.dtype == other.means.dtype
    assert world[1:].ids.tolist() == [1]
    assert world.to(torch.float32).sets.dtype == torch.int64
    own = _world(mask=torch.tensor([[True, False, True], [True, True, True]]), weights=torch.ones(3))
    assert own[0].mask.tolist() == [True, False, True]
    assert own[1:].weights.shape == (3,)


NAN = float("nan")
BAD = {
    "both": ({"means": torch.zeros(2, 3, dtype=D)}, ValueError, "either means or theta, got both"),
    "neither": ({"theta": None}, ValueError, "either means or theta, got neither"),
    "means with offset": (
        {"theta": None, "means": torch.zeros(2, 3, dtype=D), "offset": 1.0},
        ValueError,
        "offset and misfit go with theta",
    ),
    "theta dim": ({"theta": torch.zeros(2, 3, dtype=D)}, ValueError, r"theta must have shape \(\*B, 2\), .*got \(2, 3\)"),
    "theta dtype": (
        {"theta": THETA.float()},
        TypeError,
        "theta must have the items' dtype torch.float64, got torch.float32",
    ),
    "theta NaN": ({"theta": THETA * NAN}, ValueError, "means must be finite"),
    "theta list": ({"theta": [1.0, 2.0]}, TypeError, "theta must be a floating point tensor, got list"),
    "misfit shape": (
        {"misfit": torch.zeros(2, dtype=D)},
        ValueError,
        r"misfit must have shape \(M,\) or \(\*B, M\), got \(2,\)",
    ),
    "misfit dtype": ({"misfit": torch.zeros(3)}, TypeError, "misfit must have the items' dtype"),
    "misfit NaN": ({"misfit": torch.full((3,), NAN, dtype=D)}, ValueError, "means must be finite"),
    "offset": ({"offset": NAN}, ValueError, "offset must be"),
    "no candidates": ({"candidates": 0}, ValueError, "candidates must be at least 1, got 0"),
    "half a candidate": ({"candidates": 2.5}, TypeError, "candidates must be a whole number"),
    "too many": ({"candidates": 4}, ValueError, "candidates must be at most the number of items 3, got 4"),
    "sets dtype": (
        {"candidates": torch.ones(2, 2)},
        TypeError,
        "must be an int64 tensor of item numbers, got dtype torch.float32",
    ),
    "sets shape": ({"candidates": torch.tensor([0, 1])}, ValueError, r"candidates must have shape \(L, K\), got \(2,\)"),
    "sets empty": ({"candidates": torch.zeros(0, 2, dtype=torch.long)}, ValueError, r"candidates must have shape \(L, K\)"),
    "set id": (
        {"candidates": torch.tensor([[0, 1], [0, 3]])},
        ValueError,
        r"below 3, or -1 for none, got \[0, 3\] in row 1",
    ),
    "set below -1": ({"candidates": torch.tensor([[0, -2]])}, ValueError, r"got \[0, -2\] in row 0"),
    "set without items": (
        {"candidates": torch.tensor([[0, 1], [-1, -1]])},
        ValueError,
        "every candidate set must have an item that is allowed, got none in row 1",
    ),
    "set without allowed items": (
        {"candidates": torch.tensor([[0, 1], [2, -1]]), "mask": torch.tensor([True, True, False])},
        ValueError,
        "got none in row 1",
    ),
    "sets and masks": (
        {"candidates": torch.tensor([[0, 1]]), "mask": torch.ones(2, 3, dtype=torch.bool)},
        ValueError,
        r"a mask per bandit cannot be combined with candidate sets; use a mask of shape \(M,\)",
    ),
    "mask shape": ({"mask": torch.ones(2, dtype=torch.bool)}, ValueError, "mask must have shape"),
    "mask empty": ({"mask": torch.zeros(3, dtype=torch.bool)}, ValueError, "mask"),
    "weights shape": ({"weights": torch.ones(2)}, ValueError, r"weights must have shape \(3,\), one per item"),
    "weights, all items": (
        {"weights": torch.ones(3), "candidates": None},
        ValueError,
        "weights go with a number of candidates",
    ),
    "weights and sets": (
        {"weights": torch.ones(3), "candidates": torch.tensor([[0]])},
        ValueError,
        "weights go with a number",
    ),
    "weights below 0": ({"weights": torch.tensor([1.0, -1.0, 1.0])}, ValueError, "weights must be at least 0, got -1"),
    "weights NaN": ({"weights": torch.tensor([1.0, NAN, 1.0])}, ValueError, "weights must be finite"),
    "weights 0": ({"weights": torch.zeros(3)}, ValueError, "at least one allowed item must have a weight above 0"),
    "weights of masked items": (
        {"weights": torch.tensor([1.0, 0.0, 0.0]), "mask": torch.tensor([[True, True, True], [False, True, True]])},
        ValueError,
        "got none in some bandit",
    ),
    "reward": ({"reward": "poisson"}, ValueError, "reward must be"),
    "Bernoulli means": ({"reward": "bernoulli"}, ValueError, r"must be in \[0, 1\], got -1 to 0.75; rescale or clamp them"),
    "Bernoulli noise": (
        {"reward": "bernoulli", "noise_std": 0.1},
        ValueError,
        "noise_std goes with reward='gaussian', got 0.1 with reward='bernoulli'",
    ),
    "no residuals": ({"reward": "empirical"}, ValueError, "residuals go with reward='empirical', and only with it"),
    "residuals alone": ({"residuals": torch.zeros(3, dtype=D)}, ValueError, "residuals go with reward='empirical'"),
    "residuals list": ({"reward": "empirical", "residuals": [0.1]}, TypeError, "residuals must be a floating point tensor"),
    "residuals NaN": (
        {"reward": "empirical", "residuals": torch.tensor([NAN], dtype=D)},
        ValueError,
        "residuals must be finite",
    ),
    "residuals empty": (
        {"reward": "empirical", "residuals": torch.zeros(0, dtype=D)},
        ValueError,
        r"residuals must have shape \(R,\)",
    ),
    "residuals dtype": (
        {"reward": "empirical", "residuals": torch.zeros(2)},
        TypeError,
        "residuals must have the items' dtype",
    ),
    "delay below 0": ({"delay": -1}, ValueError, "delay must be at least 0, got -1"),
    "delay of hours": ({"delay": MAX_DELAY + 1}, ValueError, "delay must be at most 4096 rounds, got 4097"),
    "delay shape": (
        {"delay": torch.tensor(0.5)},
        ValueError,
        r"delay must have shape \(D \+ 1,\), with D at most 4096, got \(\)",
    ),
    "delay empty": ({"delay": torch.zeros(0)}, ValueError, r"delay must have shape \(D \+ 1,\)"),
    "delay integers": ({"delay": torch.tensor([0, 1])}, TypeError, "delay must be a floating point tensor"),
    "delay too long": ({"delay": torch.full((MAX_DELAY + 2,), 1e-4)}, ValueError, "delay must have shape"),
    "delay above 1": ({"delay": torch.tensor([0.7, 0.7])}, ValueError, "at most 1, got 1.4"),
    "delay 0": (
        {"delay": torch.zeros(3)},
        ValueError,
        "that add up to more than 0 and at most 1, got 0",
    ),
    "delay NaN": ({"delay": torch.tensor([0.5, NAN])}, ValueError, "delay must be finite"),
    "noise_std": ({"noise_std": -1.0}, ValueError, "noise_std must be in"),
    "ids": ({"ids": torch.zeros(3, dtype=torch.long)}, ValueError, "ids"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    settings, error, match = BAD[name]
    with pytest.raises(error, match=match):
        _world(**settings)


def test_items_are_checked_first():
    with pytest.raises(TypeError, match="contextual_problem: items must be a floating point tensor, got list"):
        contextual_problem([[1.0]], theta=THETA)
    with pytest.raises(ValueError, match="arms must be finite"):
        contextual_problem(ITEMS * NAN, means=torch.zeros(2, 3, dtype=D))


def test_probabilities_cannot_drift():
    coins = contextual_problem(ITEMS, means=torch.full((2, 3), 0.5, dtype=D), reward="bernoulli")
    with pytest.raises(ValueError, match="Bernoulli rewards cannot drift"):
        replace(coins, rotated_means=torch.zeros(2, 3, dtype=D), drift_rate=0.1)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (
            {"items": torch.eye(3).half(), "theta": torch.ones(3).half()},
            "items must be float32 or float64, got torch.float16",
        ),
        ({"items": torch.tensor(1.0), "theta": torch.tensor(1.0)}, r"items must have shape \(M, d\)"),
        (
            {"items": torch.eye(3), "means": [0.1, 0.2, 0.3], "reward": "bernoulli"},
            "means must be a floating point tensor, got list",
        ),
    ],
)
def test_what_is_no_float_tensor_of_items_is_refused(arguments, match):
    items = arguments.pop("items")
    with pytest.raises((TypeError, ValueError), match=match):
        contextual_problem(items, **arguments)


def test_means_that_the_dtype_cannot_resolve_are_refused():
    items, theta = torch.eye(3), torch.tensor([0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"means around 1e\+06 differ by 2 only, which torch.float32 cannot"):
        contextual_problem(items, theta=theta, offset=1e6)
    assert contextual_problem(items.double(), theta=theta.double(), offset=1e6).means.dtype == torch.double
    contextual_problem(items, theta=theta, offset=1e3)
    contextual_problem(items, means=torch.full((3,), 1e6))  # all equal


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"theta": torch.randn(64, 4)}, r"theta must have shape \(\*B, 4\), with B of the items.*got \(64, 4\)"),
        ({"means": torch.rand(3, 29)}, r"means must have shape \(\*B, 30\), one per item, got \(3, 29\)"),
        ({"theta": torch.randn(3, 4), "weights": torch.ones(30)}, "weights go with a number of candidates, got none"),
    ],
)
def test_the_argument_that_is_wrong_is_named(arguments, match):
    with pytest.raises(ValueError, match=match):
        contextual_problem(torch.randn(3, 30, 4), **arguments)
