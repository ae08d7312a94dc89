"""LinGiro against a literal simulation on the raw history."""

import numpy as np
import torch

from tests.policies.history import D, K, assert_same_distribution, fit, played_history
from torch_softucb import LinGiro


def test_lin_giro_draws_as_resampling_every_arms_list_does(seeded):
    policy = LinGiro(D, K, pseudo=1, reward_low=-1.0, reward_high=1.0, dtype=torch.double)
    arms, history = played_history(policy, seeded)
    x, random = arms.numpy(), np.random.default_rng(0)
    lists = {k: [v for arm, y in history if arm == k for v in (y, -1.0, 1.0)] for k in range(K)}
    V, _ = fit(x, [arm for arm, _ in history], [3.0] * len(history), [0.0] * len(history), alpha=3.0)
    literal = []
    for _ in range(4000):
        b = sum(x[k] * random.choice(values, size=len(values)).sum() for k, values in lists.items() if values)
        literal.append(x @ np.linalg.solve(V, b))
    assert_same_distribution(policy, arms, np.array(literal), seeded)


def test_two_pseudo_rewards_at_either_end_count_as_five_rewards():
    policy = LinGiro(2, num_arms=2, pseudo=2.0)
    for arm in (0, 1):
        policy.update(torch.eye(2)[arm], torch.tensor(float(arm)), decision=policy(torch.eye(2)), arm=torch.tensor(arm))
    means = torch.tensor([(0 + 2 * 0 + 2 * 1) / 5, (1 + 2 * 0 + 2 * 1) / 5])
    torch.testing.assert_close(policy(torch.eye(2)).draw(torch.zeros(2)), means / 2)  # V is 2
    spread = (5 * (means - means.square())).sqrt()  # sum of 5 draws of 0 or 1, divided by 1 + 2 a
    torch.testing.assert_close(policy(torch.eye(2)).draw(torch.ones(2)), (means + spread / 5) / 2)
