"""merged_rows: sums relative to a common start."""

import itertools

import pytest
import torch

from torch_softucb import EXP3, LinUCB, ScheduleBeta, SituationBeta, SoftUCBPolicy
from torch_softucb.policies.merge import check_mergeable, merged_rows

D = torch.float64


def _observations(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, dtype=D, generator=generator), torch.randn(count, dtype=D, generator=generator)


def _replicas(policy, count):
    """Return the start and what replicas have learned from it, and one policy that saw everything."""
    policy.update(*_observations(7, 99))
    start = policy.statistics.clone()
    rows = []
    for seed in range(count):
        policy.statistics = start.clone()
        policy.update(*_observations(5 + seed, seed))
        rows.append(policy.statistics.clone())
    policy.statistics = start.clone()
    for seed in range(count):
        policy.update(*_observations(5 + seed, seed))
    return start, rows


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("beta", [lambda: 1.0, lambda: SituationBeta(horizon=50)])
def test_replicas_merge_to_what_one_policy_would_know(count, beta):
    policy = SoftUCBPolicy(3, dtype=D, beta_init=beta())
    start, rows = _replicas(policy, count)
    merged = policy.layout.unpack(merged_rows(start, rows, policy.layout))
    want = policy.state
    assert merged.num_observations == want.num_observations
    for name in ("V", "b", "memory"):
        torch.testing.assert_close(getattr(merged, name), getattr(want, name), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(merged.root @ merged.root.mT @ want.V, torch.eye(3, dtype=D))


def test_the_order_of_replicas_does_not_change_a_bit():
    policy = LinUCB(3, dtype=D)
    start, rows = _replicas(policy, 4)
    merged = [merged_rows(start, order, policy.layout) for order in itertools.permutations(rows)]
    assert all(torch.equal(other, merged[0]) for other in merged)


def test_a_batch_of_bandits_merges_row_by_row():
    policy = LinUCB(3, dtype=D)
    policy.reset(batch_shape=(4,))
    start = policy.statistics.clone()
    policy.update(*_observations(2, 0), bandit=torch.tensor([1, 3]))
    first = policy.statistics.clone()
    policy.statistics = start.clone()
    policy.update(*_observations(2, 1), bandit=torch.tensor([1, 1]))
    merged = policy.layout.unpack(merged_rows(start, [first, policy.statistics], policy.layout))
    assert merged.num_observations.tolist() == [0, 3, 0, 1]


def test_a_replica_that_lost_observations_is_refused():
    policy = LinUCB(3, dtype=D)
    policy.update(*_observations(9, 0))
    start = policy.statistics.clone()
    policy.update(*_observations(1, 1), discount=0.9)
    with pytest.raises(ValueError, match="replica 1 has lost some in 1 of 1 bandits"):
        merged_rows(start, [start, policy.statistics], policy.layout)
    policy.reset()
    with pytest.raises(ValueError, match="replica 0 has lost some"):
        merged_rows(start, [policy.statistics, start], policy.layout)
    with pytest.raises(ValueError, match="statistics of replica 0 must be finite"):
        merged_rows(start, [start * torch.nan], policy.layout)
    with pytest.raises(ValueError, match="statistics of replica 1 must have shape"):
        merged_rows(start, [start, start.expand(2, -1)], policy.layout)


def test_policies_that_keep_more_than_sums_are_refused():
    check_mergeable("merge", SoftUCBPolicy(3, beta_init=ScheduleBeta(5)))
    with pytest.raises(ValueError, match="EXP3 keeps a memory of past rounds"):
        check_mergeable("merge", EXP3(3, num_arms=4))
    with pytest.raises(ValueError, match="SoftUCBPolicy with coldness='lagged' keeps a memory"):
        check_mergeable("merge", SoftUCBPolicy(3, coldness="lagged"))
