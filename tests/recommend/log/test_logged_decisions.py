"""Decisions as tensors, joined with their rewards."""

import numpy as np
import pytest
import torch

from torch_softucb.recommend.log.codec import Entry, decode, encode_decisions
from torch_softucb.recommend.log.logged_decisions import check_learnable, gather_decisions, join_rewards
from torch_softucb.recommend.serving import Served


def _chunk(first, rows, candidates):
    """Columns of decisions ``first``, ``first + 1``, ... with so many candidates each."""
    ids = torch.arange(first, first + rows)
    probability = torch.full((rows,), 0.5)
    served = Served(ids, torch.zeros_like(ids), probability, torch.ones(rows, 2), None, None, None, None, candidates)
    items, features = torch.arange(candidates), torch.ones(candidates, 2)
    return decode(encode_decisions([Entry(served, 0, None, items, features)]))[1]


def test_the_first_reward_of_a_decision_counts():
    parts = [
        {"id": np.array([4, 2]), "reward": np.array([1.0, 2.0])},
        {"id": np.array([2, 9]), "reward": np.array([5.0, 6.0])},
    ]
    got = join_rewards(np.array([2, 3, 4]), parts)
    np.testing.assert_array_equal(got, [2.0, np.nan, 1.0])
    np.testing.assert_array_equal(join_rewards(np.array([2]), []), [np.nan])


def test_shorter_candidate_lists_are_padded():
    log = gather_decisions([_chunk(0, 2, 3), _chunk(2, 1, 4)], np.zeros(3))
    assert log.id.tolist() == [0, 1, 2]
    assert log.candidates.tolist() == [[0, 1, 2, -1], [0, 1, 2, -1], [0, 1, 2, 3]]
    assert log.mask.sum(-1).tolist() == [3, 3, 4]
    assert log.features[:, 3].tolist() == [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    assert log.x.dtype == log.features.dtype == torch.double


def test_rewarded_leaves_out_decisions_whose_reward_has_not_arrived():
    log = gather_decisions([_chunk(0, 3, 2)], np.array([1.0, np.nan, 0.0]))
    assert log.rewarded.id.tolist() == [0, 2]
    assert log.rewarded.features.shape == (2, 2, 2)


def test_values_that_cannot_be_learned_from_are_named():
    log = gather_decisions([_chunk(0, 2, 2)], np.array([1.0, np.nan]))
    check_learnable("f", log)
    for change, match in [
        ({"reward": torch.full((2,), torch.nan)}, "f: none of the 2 decisions has a reward"),
        ({"reward": torch.tensor([0.0, torch.inf])}, "reward must be finite, got an infinite one in row 1"),
        ({"propensity": torch.tensor([0.5, 0.0])}, r"propensity must be in \(0, 1\], got 0.0 in row 1"),
        ({"x": log.x * torch.nan}, "x must be finite"),
        ({"x": torch.zeros(2, 0)}, "x must have at least one number in every row"),
        ({"position": torch.tensor([1, 2])}, "position must count from 0 within a slate, got at least 1 everywhere"),
        ({"id": log.id[:0]}, "at least one decision is needed"),
    ]:
        with pytest.raises(ValueError, match=match):
            check_learnable("f", log._replace(**change))
