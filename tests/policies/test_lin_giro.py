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
