"""EXP3 against the rule of its source."""

import math

import numpy as np
import pytest
import torch

from tests.policies.history import D, K, played_history
from torch_softucb import EXP3


def test_exp3_is_the_sources_rule_by_loops(seeded):
    policy = EXP3(D, K, exploration=0.2, reward_low=-2.0, reward_high=3.0, dtype=torch.double)
    arms, history = played_history(policy, seeded)
    w = [1.0] * K
    for arm, reward in history:
        p = 0.8 * w[arm] / sum(w) + 0.2 / K
        w[arm] *= math.exp(0.2 * (reward + 2) / 5 / p / K)
    with torch.no_grad():
        probs = policy(arms).probs
    np.testing.assert_allclose(probs, [0.8 * v / sum(w) + 0.2 / K for v in w], atol=1e-12)
    assert probs.min() >= 0.2 / K - 1e-12  # every arm keeps its share


def test_exploration_is_in_0_1_and_may_be_1():
    arms = torch.eye(K)[:, :D] if D <= K else torch.zeros(K, D)
    assert torch.allclose(EXP3(D, K, exploration=1.0)(arms).probs, torch.full((K,), 1 / K))
    for wrong in (0.0, 1.5):
        with pytest.raises(ValueError, match="EXP3: exploration must be in"):
            EXP3(D, K, exploration=wrong)


def test_the_theoretical_exploration_is_that_of_corollary_4_2():
    for horizon in (100, 10**6):
        want = math.sqrt(K * math.log(K) / ((math.e - 1) * horizon))
        assert EXP3.theoretical(D, K, horizon=horizon).exploration == pytest.approx(want, rel=1e-6)  # float32
    assert EXP3.theoretical(D, K, horizon=1).exploration == 1.0
    assert 0 < EXP3.theoretical(D, 1, horizon=9).exploration < 1e-6  # ln 1 = 0, which the constructor refuses
