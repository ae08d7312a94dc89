"""Statistics as a buffer: dtype, checkpoints, settings, what repr shows."""

import copy

import pytest
import torch

from torch_softucb.policies.statistics import RidgeStatistics


def test_the_buffer_stays_float64_and_other_numbers_follow():
    statistics = RidgeStatistics(3, dtype=torch.float32, memory=torch.ones(2))
    exact = statistics.statistics.clone()
    for dtype in (torch.float16, torch.float64, torch.float32):
        statistics.to(dtype)
        assert statistics.dtype == dtype
        assert statistics.statistics.dtype == torch.float64
        assert statistics.statistics.equal(exact)


def test_a_checkpoint_brings_its_own_batch():
    saved, other = RidgeStatistics(3), RidgeStatistics(3)
    saved.reset(batch_shape=(2, 5))
    other.load_state_dict(copy.deepcopy(saved.state_dict()))
    assert other.batch_shape == (2, 5)
    with pytest.raises(
        ValueError, match=r"statistics must be torch.float64 of shape \(\*B, 38\), got torch.float64 of shape \(2, 5, 23\)"
    ):
        RidgeStatistics(4).load_state_dict(saved.state_dict())


def test_settings_and_repr():
    statistics = RidgeStatistics(3, ridge_alpha=0.5, refresh_every=7, dtype=torch.double)
    cpu = torch.empty(0).device
    settings = {"ridge_alpha": 0.5, "refresh_every": 7, "prior": None, "device": cpu, "dtype": torch.double}
    assert statistics.settings == settings
    assert repr(statistics) == "RidgeStatistics(dim=3, ridge_alpha=0.5, batch_shape=())"


def test_refresh_recomputes_the_cache_from_V():
    statistics = RidgeStatistics(3)
    statistics.reset(batch_shape=(2,))
    statistics.state.root[1].mul_(1.5)
    assert statistics.cache_error().tolist() == [0.0, 1.25]
    statistics.refresh()
    assert statistics.cache_error().max() < 1e-15


def test_memory_starts_as_given_for_every_bandit():
    statistics = RidgeStatistics(2, memory=torch.tensor([1.0, 2.0, 3.0]))
    statistics.reset(batch_shape=(2,))
    assert statistics.state.memory.tolist() == [[1.0, 2.0, 3.0]] * 2
    fresh = statistics.fresh_memory((4,))
    fresh[0] = 9.0
    assert statistics.fresh_memory((4,)).tolist() == [[1.0, 2.0, 3.0]] * 4
    assert RidgeStatistics(2).fresh_memory((4,)).shape == (4, 0)
