"""History of a bandit over a fixed set of arms, and slow references on it."""

import numpy as np
import torch

K, D = 6, 3


def played_history(policy, seeded, rounds=40):
    """Play a bandit, uniformly among its arms, and keep what was seen."""
    g = seeded(0)
    arms = torch.nn.functional.normalize(torch.randn(K, D, dtype=torch.double, generator=g), dim=-1)
    theta = torch.randn(D, dtype=torch.double, generator=g)
    history = []
    with torch.no_grad():
        for _ in range(rounds):
            decision = policy(arms)
            arm = torch.randint(0, K - 1, (), generator=g)  # the last arm is never played
            reward = arms[arm] @ theta + 0.5 * torch.randn((), dtype=torch.double, generator=g)
            policy.update(arms[arm], reward, decision=decision, arm=arm)
            history.append((int(arm), reward.item()))
    return arms, history


def fit(arms, rows, weights, targets, alpha=1.0):
    V = alpha * np.eye(D)
    b = np.zeros(D)
    for arm, w, y in zip(rows, weights, targets, strict=True):
        V += w * np.outer(arms[arm], arms[arm])
        b += arms[arm] * y
    return V, b


def _moments(draws):
    return draws.mean(0), np.cov(draws.T)


def assert_same_distribution(policy, arms, literal, seeded, slack=0.0):
    """Mean and covariance of the drawn index, within 5 standard errors of the literal simulation (and ``slack``)."""
    with torch.no_grad():
        decision = policy(arms)
        z = torch.randn(40_000, policy.normals_per_decision, dtype=torch.double, generator=seeded(5))
        drawn = torch.stack([decision.draw(row) for row in z[:4000]]).numpy()
    (mean, cov), (want, want_cov) = _moments(drawn), _moments(literal)
    error = np.sqrt(np.diag(want_cov) * (1 / len(drawn) + 1 / len(literal)))
    assert (np.abs(mean - want) < 5 * error + slack).all()
    scale = np.sqrt(np.outer(np.diag(want_cov), np.diag(want_cov)))
    assert (np.abs(cov - want_cov) < (0.12 + slack) * scale + 1e-12).all()
