"""Probabilities of delays against a literal product over the rounds."""

import pytest
import torch

from torch_softucb.functional.delays import delay_probabilities


@pytest.mark.parametrize("seed", range(5))
def test_product_over_rounds(seed, seeded):
    g = seeded(seed)
    delay, later = torch.randint(7, (60,), generator=g), torch.randint(9, (60,), generator=g)
    never = torch.rand(60, generator=g) < 0.3
    delay = torch.where(never | (delay >= later), torch.iinfo(torch.int64).max, delay)
    expected, still_open = [], 1.0
    for k in range(7):
        followed = [(d, n) for d, n in zip(delay.tolist(), later.tolist(), strict=True) if n > k and d >= k]
        chance = sum(d == k for d, _ in followed) / len(followed) if followed else 0.0
        expected.append(still_open * chance)
        still_open *= 1 - chance
    found = delay_probabilities(delay, later)
    assert found[-1] > 0
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.double)[: len(found)], rtol=0, atol=1e-12)
    assert sum(expected[len(found) :]) == 0


def test_nothing_was_seen():
    assert len(delay_probabilities(torch.tensor([0, 3]), torch.tensor([0, 2]))) == 0
