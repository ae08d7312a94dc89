"""Contract of all policies: rows of a batch by bandit id, and one bandit with many requests."""

import pytest
import torch

from tests.policies.cases import Case, play


@pytest.fixture
def rows(name, dtype):
    """A case with the one batch dimension that ids refer to; all others refuse ids."""
    return Case(name, dtype, (3,))


def test_rows_by_id_are_rows_of_the_whole(rows):
    policy, ids = rows.played(), torch.tensor([2, 0, 2])
    some, whole = policy(rows.arms(), bandit=ids), policy(rows.arms())
    for field in ("mu_hat", "width", "index") + (() if rows.sampled else ("probs",)):
        torch.testing.assert_close(getattr(some, field), getattr(whole, field)[ids], atol=100 * rows.tolerance, rtol=0)
    own = rows.randn(3, 6, 4, seed=8)
    assert policy(own, bandit=ids).index.shape == (3, 6)


def test_updates_by_id_leave_the_other_rows_alone(rows):
    policy = rows.policy()
    before = policy.statistics.clone()
    play(policy, rows.arms(), bandit=torch.tensor([2, 0]))
    assert policy.statistics[1].equal(before[1])
    assert policy.state.num_observations.tolist() == [5, 0, 5]


def test_updates_by_id_are_those_of_the_whole_batch(rows):
    policy, other = rows.policy(), rows.policy()
    x, reward = rows.observed()
    ids = torch.tensor([2, 0, 1])
    given, arms = rows.decided(policy), rows.arms()
    policy.update(x, reward, **given)
    back = {"decision": other(arms, bandit=ids), "arm": given["arm"][ids]}
    other.update(x[ids], reward[ids], bandit=ids, **back)
    torch.testing.assert_close(other.statistics, policy.statistics, atol=1e-12, rtol=0)


@pytest.mark.parametrize("count", [5, 20])  # few repeats are added one after the other, many as sums
def test_repeated_ids_are_observations_one_after_the_other(rows, count):
    rows.skip_estimated_ridge()
    rows.skip_one_per_call()
    policy, other = rows.policy(), rows.policy()
    ids = torch.tensor([2, 0, 2, 2, 0]).repeat(count // 5)
    x, reward = rows.randn(count, 4), rows.randn(count, seed=3)
    policy.update(x, reward, bandit=ids)
    for i in torch.randperm(count, generator=torch.Generator().manual_seed(0)).tolist():
        other.update(x[i : i + 1], reward[i : i + 1], bandit=ids[i : i + 1])
    torch.testing.assert_close(policy.state.V, other.state.V, atol=1e-11, rtol=0)
    torch.testing.assert_close(policy.state.b, other.state.b, atol=1e-11, rtol=0)
    assert policy.state.num_observations.tolist() == [2 * count // 5, 0, 3 * count // 5]
    rows.same(policy(rows.arms()), other(rows.arms()), root=False)


def test_a_bad_row_among_repeated_ids_is_refused_whole(rows):
    rows.skip_one_per_call()
    policy = rows.played()
    before = policy.statistics.clone()
    x, reward = rows.randn(4, 4), rows.randn(4)
    reward[3] = torch.nan
    with pytest.raises(ValueError, match="reward must be finite"):
        policy.update(x, reward, bandit=torch.tensor([0, 0, 1, 2]))
    with pytest.raises(ValueError, match=r"bandit ids must be in \[0, 3\), got 3 in row 3"):
        policy.update(x, x[:, 0], bandit=torch.tensor([0, 0, 1, 3]))
    assert policy.statistics.equal(before)


def test_one_bandit_answers_many_requests(name, dtype):
    """Leading dimensions are requests for one bandit only."""
    case = Case(name, dtype, ())
    case.skip_one_per_call()
    policy, other = case.policy(), case.policy()
    requests = case.randn(3, 3, 6, 4)
    decision = policy(requests)
    assert decision.sample().shape == (3, 3)
    x, reward = requests[:, :, 0], case.randn(3, 3, seed=4)
    policy.update(x, reward)
    for i in range(3):
        for j in range(3):
            other.update(x[i, j], reward[i, j])
    assert policy.state.num_observations == 9  # a number after which auto estimates its scales
    whole, one = policy(requests), other(requests[1, 2])
    torch.testing.assert_close(whole.index[1, 2], one.index, atol=case.tolerance, rtol=case.tolerance)
