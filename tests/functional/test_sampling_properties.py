"""Laws of draws and slates: exact sums over all outcomes, not frequencies."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import NUMBERS
from torch_softucb import functional as F


@given(NUMBERS, st.integers(1, 9))
def test_an_arm_is_drawn_on_an_interval_as_long_as_its_probability(numbers, k):
    """The ends of each arm's interval of uniform numbers select it, up to rounding; an arm of probability 0 has none."""
    probs = numbers.probabilities(k)
    ends = [0.0, *itertools.accumulate(probs.tolist())]
    for arm, (low, high) in enumerate(itertools.pairwise(ends)):
        if high - low > 1e-9:
            for u in (low + 1e-12, (low + high) / 2, high - 1e-12):
                assert F.draw_arm(probs, torch.tensor(u, dtype=torch.double)) == arm
    u = numbers.uniform(200)
    assert (probs[F.draw_arm(probs.expand(200, k), u)] > 0).all()


@given(NUMBERS, st.integers(1, 9))
def test_rows_are_drawn_as_single_decisions_are(numbers, k):
    probs, u = numbers.probabilities(7, k), numbers.uniform(7)
    u[0], u[1] = 0.0, 1 - 2**-53
    rows = F.draw_arm(probs, u)
    assert rows.tolist() == [F.draw_arm(p, v).item() for p, v in zip(probs, u, strict=True)]


@given(NUMBERS, st.integers(1, 5), st.data())
def test_slates_of_one_length_have_probabilities_that_sum_to_one(numbers, arms, data):
    probs = numbers.probabilities(arms)
    k = data.draw(st.integers(1, int((probs > 0).sum())))
    total = 0.0
    for slate in itertools.permutations(range(arms), k):
        log_prob = F.slate_log_prob(probs.log(), torch.tensor(slate)).sum()
        total += math.exp(log_prob)
    assert total == pytest.approx(1, abs=1e-12)


@given(NUMBERS, st.integers(1, 6), st.data())
def test_a_slates_probability_is_that_of_draws_without_replacement(numbers, arms, data):
    probs = numbers.probabilities(arms)
    positive = (probs > 0).nonzero().flatten().tolist()
    slate = data.draw(st.permutations(positive))
    left, want = 1.0, []
    for arm in slate:
        want.append(math.log(probs[arm].item()) - math.log(left))
        left = max(left - probs[arm].item(), 1e-300)
    got = F.slate_log_prob(probs.log(), torch.tensor(slate))
    assert got[:-1].tolist() == pytest.approx(want[:-1], abs=1e-9)
    assert got[-1].item() == pytest.approx(0, abs=1e-9)  # the last one is certain


@given(NUMBERS, st.integers(1, 8), st.data())
def test_a_drawn_slate_is_a_list_of_different_allowed_arms(numbers, arms, data):
    probs, mask = numbers.probabilities(5, arms), numbers.mask(5, arms)
    probs = (probs + 1e-3) * mask  # masked arms have probability 0
    probs[:, 0] *= 1 - numbers.mask(5, 1).squeeze(-1).double() * (mask.sum(-1) > 1)  # and so may allowed ones
    k = data.draw(st.integers(1, int(mask.sum(-1).min())))
    log_probs = (probs / probs.sum(-1, keepdim=True)).log()
    slate = F.draw_slate(log_probs, numbers.normal(5, arms), numbers.uniform(5, arms), k=k, mask=mask)
    for row, allowed in zip(slate.tolist(), mask.tolist(), strict=True):
        assert len(set(row)) == k
        assert all(allowed[arm] for arm in row)


@given(NUMBERS, st.integers(2, 8), st.data())
def test_a_longer_slate_begins_with_the_shorter_one(numbers, arms, data):
    log_probs, index, u = numbers.probabilities(arms).log(), numbers.normal(arms), numbers.uniform(arms)
    k = data.draw(st.integers(1, arms - 1))
    long = F.draw_slate(log_probs, index, u, k=arms)
    assert F.draw_slate(log_probs, index, u, k=k).equal(long[:k])
