"""The summary of bandits whose scales are known, against its definition."""

import math

import pytest
import torch

from tests.policies.cases import prior_of
from torch_softucb import AutoSoftUCB, DisjointArms
from torch_softucb.policies.prior_scales import summarise_one, summarised
from torch_softucb.policies.scales import GROWTH, SUMMARY

D = torch.double
DIM = 3


def _played(seeded, batch, observations, **settings):
    policy = AutoSoftUCB(DIM, prior=prior_of(DIM), dtype=D, **settings)
    policy.reset(batch_shape=batch)
    for t in range(observations):
        x = torch.randn(*batch, DIM, generator=seeded(t), dtype=D)
        policy.update(x, torch.randn(batch, generator=seeded(99 + t), dtype=D), discount=0.9)
    return policy


def _literal(policy):
    """SUMMARY of all rows of a policy, taken as one group."""
    state, scales = policy.state, policy.scales
    rows = len(state.V.view(-1, DIM, DIM))
    V, b = state.V.view(rows, DIM, DIM), state.b.view(rows, DIM)
    eye, weight = torch.eye(DIM, dtype=D), scales.weight.sum()
    learned = sum(float(one @ torch.linalg.solve(matrix, one)) for one, matrix in zip(b, V, strict=True))
    length = sum(float((matrix - eye).trace()) for matrix in V) / weight
    return {
        "num_observations": weight / rows,
        "num_rows": 1.0,
        "explained": learned / scales.energy.sum(),
        "log_rho": -math.log10(length),
        "log_det": torch.logdet(V).mean() / DIM,
        "shrinkage": torch.linalg.inv(V).diagonal(dim1=-2, dim2=-1).sum(-1).mean() / DIM,
        "kept": weight / scales.total.sum(),
    }


@pytest.mark.parametrize(("batch", "pooled"), [((), False), ((4,), True)])
def test_summary_is_its_definition(batch, pooled, seeded):
    policy = _played(seeded, batch, 3, rows_per_group=None if pooled else 1)  # due after each of 3 observations
    found = policy.scales.summary.reshape(-1, len(SUMMARY))
    for got, (name, want) in zip(found[0], _literal(policy).items(), strict=True):
        torch.testing.assert_close(float(got), float(want), atol=1e-10, rtol=1e-10, msg=name)
    assert found.eq(found[0]).all()


def test_summary_is_refreshed_at_the_times_of_the_scales(seeded):
    policy, due = AutoSoftUCB(DIM, prior=prior_of(DIM), dtype=D), []
    plain = AutoSoftUCB(DIM, dtype=D)
    for t in range(20):
        x, reward = torch.randn(DIM, generator=seeded(t), dtype=D), torch.randn((), generator=seeded(50 + t), dtype=D)
        policy.update(x, reward)
        plain.update(x, reward)
        due.append(float(policy.scales.due))
        assert policy.scales.due == plain.scales.due
        assert policy.scales.rho == 1
        assert policy.scales.offset == policy.scales.anchor == policy.scales.offset_variance == 0
    assert due[-1] == 18 + math.floor(GROWTH * 18)


def test_numpy_is_torch(seeded):
    policy = _played(seeded, (), 6)
    layout, row = policy.layout, policy.statistics.clone()
    count = policy.scales.total.clone()
    want = summarised(layout.unpack(row.unsqueeze(0)), count.reshape(())).memory[0]
    numbers = row.numpy()
    summarise_one(numbers, layout)
    torch.testing.assert_close(torch.from_numpy(numbers[layout.memory]), want, atol=1e-12, rtol=1e-12)


def test_features_and_rewards_of_0_have_a_summary():
    policy = AutoSoftUCB(DIM, prior=prior_of(DIM, offset=2.0), dtype=D)
    policy.update(torch.zeros(4, DIM, dtype=D), torch.full((4,), 2.0, dtype=D))
    summary = dict(zip(SUMMARY, policy.scales.summary.tolist(), strict=True))
    assert summary["explained"] == summary["log_rho"] == summary["log_det"] == 0.0
    assert summary["shrinkage"] == 1.0
    assert policy(torch.eye(DIM, dtype=D)).probs.isfinite().all()


def test_arms_of_one_bandit_are_counted_as_such(seeded):
    arms = DisjointArms(AutoSoftUCB(DIM, prior=prior_of(DIM), dtype=D), num_arms=5)
    arms.update(torch.randn(3, DIM, generator=seeded(0), dtype=D), torch.tensor([0, 1, 1]), torch.ones(3, dtype=D))
    summary = dict(zip(SUMMARY, arms.policy.scales.summary[0].tolist(), strict=True))
    assert summary["num_observations"] == 3
    assert summary["num_rows"] == 5
