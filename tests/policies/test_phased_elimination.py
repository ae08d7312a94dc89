"""Phased elimination against the algorithm of its source, by loops."""

import math

import pytest
import torch

from tests.policies.history import D, K
from torch_softucb import Decision, PhasedElimination, rollout, synthetic_problem


def test_phased_elimination_keeps_to_its_plan(seeded):
    """Phase by phase, by loops: pulls as designed, then exactly the arms within 2 e of the best stay."""
    from torch_softucb import functional as F

    problem = synthetic_problem(num_problems=1, num_arms=K, dim=D, dtype=torch.double, generator=seeded(0))[0]
    policy = PhasedElimination(D, K, subgaussian_r=0.5, fail_prob=0.05, dtype=torch.double)
    got = rollout(policy, problem, horizon=2500, generator=seeded(1), record=["arm", "reward"])
    arms, rewards = got.records["arm"].tolist(), got.records["reward"].tolist()
    left, t, phase, x = torch.ones(K, dtype=torch.bool), 0, 1, problem.arms
    while True:
        weights, g = F.g_optimal_design(x, mask=left)
        e = 2.0**-phase
        need = 2 * 0.25 * g.item() / e**2 * math.log(K * phase * (phase + 1) / 0.05)
        pulls = [math.ceil(w * need) for w in weights.tolist()]
        if t + sum(pulls) > 2500:
            break
        played, paid = arms[t : t + sum(pulls)], rewards[t : t + sum(pulls)]
        assert [played.count(k) for k in range(K)] == pulls
        V = sum(torch.outer(x[a], x[a]) for a in played)
        theta = torch.linalg.pinv(V, hermitian=True) @ sum(x[a] * y for a, y in zip(played, paid, strict=True))
        means = x @ theta
        left = left & (means >= means[left].max() - 2 * e)
        t, phase = t + sum(pulls), phase + 1
    assert phase >= 3
    assert left[problem.means.argmax()]
    assert left.sum() < K


def test_a_mask_that_comes_after_the_plan_is_kept(seeded):
    """The phase waits for its arms; meanwhile an allowed arm is played."""
    policy = PhasedElimination(D, K, dtype=torch.double)
    arms = torch.randn(K, D, dtype=torch.double, generator=seeded(0))
    first = policy(arms)
    planned = first.sample()
    policy.update(arms[planned], torch.tensor(1.0, dtype=torch.double), decision=first, arm=planned)
    for arm in range(K):
        mask = torch.arange(K) == arm
        assert policy(arms, mask=mask).probs.tolist() == mask.double().tolist()


def test_a_decision_of_another_policy_is_refused():
    policy, arms = PhasedElimination(2, 2), torch.eye(2)
    other = Decision(probs=torch.ones(2) / 2, index=torch.zeros(2), mu_hat=torch.zeros(2), width=torch.ones(2))
    before = policy.statistics.clone()
    with pytest.raises(TypeError, match="decision must be the one with which this policy chose the arm, got a Decision"):
        policy.update(arms[0], torch.tensor(1.0), decision=other, arm=torch.tensor(0))
    assert policy.statistics.equal(before)
