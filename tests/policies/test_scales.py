"""Rows that keep scales: packing, groups that share them, when they are estimated."""

import torch

from torch_softucb import AutoSoftUCB
from torch_softucb.policies.scales import (
    SUMMARY,
    fresh_memory,
    group,
    impossible,
    next_due,
    pack_memory,
    unpack_memory,
)

D = torch.double


def test_memory_is_packed_as_it_is_unpacked():
    memory = torch.arange(2.0 * len(fresh_memory(3)), dtype=D).view(2, -1)
    assert pack_memory(unpack_memory(memory)).equal(memory)
    assert unpack_memory(memory).sum_x.shape == (2, 3)
    assert unpack_memory(memory).summary.shape == (2, len(SUMMARY))


def test_a_fresh_memory_is_possible_and_others_are_not():
    good = fresh_memory(2)
    bad = good.repeat(3, 1)
    bad[0, 1], bad[1, 6], bad[2, 5] = -1.0, 0.0, -0.1  # weight, rho, noise
    assert impossible(good[None]).tolist() == [False]
    assert impossible(bad).tolist() == [True, True, True]


def test_estimates_come_after_30_percent_more():
    count = torch.tensor([1.0, 9.0, 10.0, 100.0], dtype=D)
    assert next_due(count, count).tolist() == [2.0, 11.0, 13.0, 130.0]


def test_groups_are_consecutive_rows():
    groups = group(torch.tensor([5, 0, 4, 1, 5]), 2)
    assert groups.id.tolist() == [0, 2]
    assert groups.member.tolist() == [1, 0, 1, 0, 1]
    assert groups.first.tolist() == [1, 0]


def test_rows_of_a_group_share_scales_and_others_do_not():
    g = torch.Generator().manual_seed(0)
    policy = AutoSoftUCB(2, rows_per_group=3, dtype=D)
    policy.reset(batch_shape=(6,))
    for _ in range(40):
        x, y = torch.randn(2, 2, dtype=D, generator=g), torch.randn(2, dtype=D, generator=g)
        policy.update(x, y * torch.tensor([1.0, 10.0], dtype=D), bandit=torch.tensor([0, 4]))
    scales = policy.scales
    assert scales.noise_std[:3].unique().numel() == scales.noise_std[3:].unique().numel() == 1
    assert scales.noise_std[5] > 3 * scales.noise_std[0]
    assert scales.total.tolist() == [40, 0, 0, 40, 0, 0]
    assert policy.state.num_observations.tolist() == [40, 0, 0, 0, 40, 0]
    assert policy.cache_error().max() < 1e-10  # rows without observations have the ridge of their group


def test_a_large_group_is_estimated_from_the_rows_with_the_most_observations(monkeypatch):
    monkeypatch.setattr("torch_softucb.policies.scales._MOST_ROWS", 2)
    g = torch.Generator().manual_seed(0)
    policy = AutoSoftUCB(2, rows_per_group=None, dtype=D)
    policy.reset(batch_shape=(4,))
    ids = torch.tensor([0] * 20 + [2] * 20 + [1, 3])
    rewards = torch.randn(42, dtype=D, generator=g)
    rewards[-2:] = 1e6  # rows 1 and 3 have one observation each
    policy.update(torch.randn(42, 2, dtype=D, generator=g), rewards, bandit=ids)
    assert policy.noise_std < 2
    assert policy.scales.rho.unique().numel() == 1
