"""BootstrapThompson against a literal simulation on the raw history."""

import numpy as np
import torch

from tests.policies.history import D, K, assert_same_distribution, played_history
from torch_softucb import BootstrapThompson


def test_bootstrap_thompson_draws_as_weighting_every_observation_does(seeded):
    """Normal sums against Poisson weights on the raw history of 400 rounds: they agree as sums of many do."""
    policy = BootstrapThompson(D, K, prior_std=0.7, dtype=torch.double)
    arms, history = played_history(policy, seeded, 400)
    x, random = arms.numpy(), np.random.default_rng(0)
    rows, rewards = np.array([arm for arm, _ in history]), np.array([y for _, y in history])
    literal = []
    for _ in range(4000):
        w = random.poisson(1.0, len(history))
        V = np.eye(D) + (x[rows] * w[:, None]).T @ x[rows]
        b = x[rows].T @ (w * rewards) + 0.7 * random.normal(size=D)
        literal.append(x @ np.linalg.solve(V, b))
    assert_same_distribution(policy, arms, np.array(literal), seeded, slack=0.01)
