"""LinPHE against a literal simulation on the raw history."""

import numpy as np
import torch

from tests.policies.history import D, K, assert_same_distribution, fit, played_history
from torch_softucb import LinPHE


def test_lin_phe_draws_as_perturbing_every_reward_does(seeded):
    policy = LinPHE(D, K, perturbation=2, reward_low=-1.0, reward_high=1.0, dtype=torch.double)
    arms, history = played_history(policy, seeded)
    x, random = arms.numpy(), np.random.default_rng(0)
    rows = [arm for arm, _ in history]
    literal = []
    for _ in range(4000):
        coins = random.choice([-1.0, 1.0], size=(len(history), 2)).sum(1)
        _, b = fit(x, rows, [1.0] * len(history), [y + c for (_, y), c in zip(history, coins, strict=True)])
        V, _ = fit(x, rows, [3.0] * len(history), [0.0] * len(history), alpha=3.0)
        literal.append(x @ np.linalg.solve(V, b))
    assert_same_distribution(policy, arms, np.array(literal), seeded)
