"""The residual sum against least squares by hand, and against the sum of what each round was off."""

import math

import torch

from torch_softucb import functional as F

D = torch.double


def _data(seeded, n=30, d=4):
    g = seeded(0)
    return torch.randn(n, d, dtype=D, generator=g), torch.randn(n, dtype=D, generator=g)


def _ridge(x, y, alpha):
    V = alpha * torch.eye(x.shape[1], dtype=D) + x.T @ x
    return F.ridge_root(V), x.T @ y


def test_it_is_the_least_penalised_sum_of_squares(seeded):
    x, y = _data(seeded)
    root, b = _ridge(x, y, 0.7)
    theta = root @ root.mT @ b
    literal = sum((y[i] - sum(x[i, j] * theta[j] for j in range(4))) ** 2 for i in range(30)) + 0.7 * (theta**2).sum()
    torch.testing.assert_close(F.residual_sum((y**2).sum(), root, b), literal, atol=1e-10, rtol=0)


def test_it_is_the_sum_of_what_every_round_was_off(seeded):
    x, y = _data(seeded)
    total = 0.0
    for t in range(30):
        root, b = _ridge(x[:t], y[:t], 0.7)
        mu_hat, width = F.ridge_estimate(x[t : t + 1], root, b)
        total += (y[t] - mu_hat[0]) ** 2 / (1 + width[0] ** 2)
    root, b = _ridge(x, y, 0.7)
    torch.testing.assert_close(F.residual_sum((y**2).sum(), root, b), total, atol=1e-10, rtol=0)


def test_noise_is_found(seeded):
    g = seeded(1)
    x = torch.randn(2000, 5, dtype=D, generator=g)
    y = x @ torch.ones(5, dtype=D) + 0.3 * torch.randn(2000, dtype=D, generator=g)
    root, b = _ridge(x, y, 1.0)
    count, squares = F.reward_sums(y)
    found = F.log_noise(count, F.residual_sum(squares, root, b))
    assert abs(float(found) - math.log(0.3)) < 0.06
    assert F.log_noise(torch.zeros(3), torch.zeros(3)).tolist() == [0.0] * 3
