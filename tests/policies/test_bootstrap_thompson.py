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


def test_a_larger_number_is_a_larger_weight_and_no_weight_is_below_0():
    policy = BootstrapThompson(2, num_arms=2)
    one = torch.tensor([0.0, 1.0])
    policy.update(one, torch.tensor(1.0), decision=policy(torch.eye(2)), arm=torch.tensor(1))
    for number, weight in ((1.0, 2.0), (-1.0, 0.0), (-3.0, 0.0)):
        z = torch.zeros(6)
        z[1] = number
        torch.testing.assert_close(policy(torch.eye(2)).draw(z), weight / (1 + weight) * one)
