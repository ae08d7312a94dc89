"""BootstrappedUCB against a literal multiplier bootstrap on the raw history."""

import math

import numpy as np
import torch

from tests.policies.history import D, K, fit, played_history
from torch_softucb import BootstrappedUCB


def test_bootstrapped_ucb_has_the_multiplier_bootstraps_deviation(seeded):
    policy = BootstrappedUCB(D, K, split=0.1, subgaussian_r=0.5, dtype=torch.double)
    arms, history = played_history(policy, seeded)
    x, random = arms.numpy(), np.random.default_rng(0)
    V, b = fit(x, [arm for arm, _ in history], [1.0] * len(history), [y for _, y in history])
    theta = np.linalg.solve(V, b)
    scores = np.array([(y - x[arm] @ theta) * x[arm] for arm, y in history])
    literal = random.normal(size=(20_000, len(history))) @ scores @ np.linalg.inv(V) @ x.T
    with torch.no_grad():
        decision = policy(arms)
        deviation = policy.deviation(policy._estimate("", arms, None)).numpy()
    np.testing.assert_allclose(deviation, literal.std(0), rtol=0.03)
    fail = 1 / (1 + len(history) + 1)
    width = np.sqrt(np.einsum("kd,de,ke->k", x, np.linalg.inv(V), x))
    quantile = np.quantile(literal, 1 - fail * 0.9, axis=0)
    correction = 0.5 * width**2 * math.sqrt(2 * math.log(1 / fail) * math.log(2 / fail / 0.1))
    np.testing.assert_allclose(decision.index, x @ theta + quantile + correction, rtol=0.05, atol=0.05)
