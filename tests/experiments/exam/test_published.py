"""Environments of the published comparison, against a plain loop."""

import torch
from torch.nn.functional import normalize

from experiments.exam.published import CANDIDATES, DIMS, PUBLISHED, published, regret, theta_of
from torch_softucb import LinUCB

D = torch.double


def _make(dim, horizon):
    return LinUCB(dim, beta=0.5, dtype=D)


def test_theta_has_the_published_norms():
    assert theta_of(5).norm().item() == 5
    assert theta_of(100).norm().item() == 5
    assert theta_of(10).tolist() == list(range(10))


def test_regret_by_a_plain_loop_over_one_run():
    got = regret(_make, 5, rounds=20, runs=1, seed=3)
    world, draws, policy, total = torch.Generator().manual_seed(3), torch.Generator().manual_seed(4), _make(5, 20), 0.0
    for _ in range(20):
        arms = normalize(torch.randn(1, CANDIDATES, 5, dtype=D, generator=world), dim=-1)[0]
        noise = torch.randn(1, dtype=D, generator=world)[0]
        arm = policy(arms).pick(torch.rand(1, dtype=D, generator=draws)[0])
        means = arms @ theta_of(5) + 1
        total += float(means.max() - means[arm])
        policy.update(arms[arm], means[arm] + noise)
    torch.testing.assert_close(got, torch.tensor([total], dtype=D))


def test_rows_hold_the_published_numbers_and_ours():
    rows = published({"ours": _make}, rounds=3, runs=2)
    assert len(rows) == len(DIMS) * (len(PUBLISHED) + 1)
    assert {"policy": "D3RB (published)", "dim": 10, "regret": 162.0, "error": 0.0} in rows
    assert all(row["regret"] > 0 for row in rows)
