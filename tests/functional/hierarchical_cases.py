"""Users with separate thetas, as rewards and as sums."""

import math

import torch

from torch_softucb.functional.scales import RegressionSums

D = torch.double


def user_data(seeded, users, n, d, *, noise=0.7, offset=3.0, seed=0):
    """Features, rewards, and the true mean and covariance."""
    g = seeded(seed)
    half = torch.randn(d, d, generator=g, dtype=D) / math.sqrt(d) * torch.linspace(1, 0.2, d, dtype=D)
    covariance, mean = half @ half.T + 0.02 * torch.eye(d, dtype=D), torch.randn(d, generator=g, dtype=D)
    theta = mean + torch.randn(users, d, generator=g, dtype=D) @ torch.linalg.cholesky(covariance).T
    x = torch.randn(users, n, d, generator=g, dtype=D)
    y = offset + (x * theta.unsqueeze(1)).sum(-1) + noise * torch.randn(users, n, generator=g, dtype=D)
    return x, y, mean, covariance


def sums_of(x, y):
    count = torch.full(y.shape[:1], float(y.shape[1]), dtype=D)
    return RegressionSums(count, x.sum(1), y.sum(1), x.mT @ x, (x * y.unsqueeze(-1)).sum(1), y.square().sum(1))
