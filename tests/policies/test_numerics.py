"""Statistics stay right over a million float32 observations, and a cache that is off is found."""

import math

import mpmath
import numpy as np
import pytest
import torch

from torch_softucb import NumericalError, SoftUCBPolicy
from torch_softucb import functional as F

DIM = 16


def _oracle(V, b, arms):
    """width^2 and mean in 60 digits, and |theta_hat|."""
    with mpmath.workdps(60):
        inverse = mpmath.matrix(V) ** -1
        theta = inverse * mpmath.matrix(b)
        rows = [mpmath.matrix([mpmath.mpf(float(v)) for v in x]) for x in arms]
        width_sq = [float((x.T * inverse * x)[0]) for x in rows]
        mean = [float((x.T * theta)[0]) for x in rows]
        return np.array(width_sq), np.array(mean), float(mpmath.norm(theta))


CASES = {
    "scale 1, alpha 1": (np.ones(DIM), 1.0, False),
    "scales 1 to 1e-5, alpha 0.001": (np.logspace(0, -5, DIM), 0.001, False),
    "the same, rotated": (np.logspace(0, -5, DIM), 0.001, True),
    "scale 1e-5, alpha 0.001": (np.full(DIM, 1e-5), 0.001, False),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_a_million_updates_in_float32(case):
    """20,000 single observations, then batches of 1,000 up to a million; the oracle adds them in 80-bit numbers."""
    scales, alpha, rotated = CASES[case]
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0] if rotated else np.eye(DIM)
    theta = rng.normal(size=DIM)
    policy = SoftUCBPolicy(DIM, ridge_alpha=alpha)
    V, b = np.eye(DIM, dtype=np.longdouble) * np.longdouble(alpha), np.zeros(DIM, dtype=np.longdouble)

    def batch(n):
        nonlocal V, b
        x = ((rng.normal(size=(n, DIM)) * scales) @ rotation).astype(np.float32)
        y = (x @ theta + rng.normal(size=n)).astype(np.float32)
        wide = x.astype(np.longdouble)
        V, b = V + wide.T @ wide, b + wide.T @ y.astype(np.longdouble)
        return torch.from_numpy(x), torch.from_numpy(y)

    x, y = batch(20_000)
    for i in range(20_000):
        policy.update(x[i], y[i])
    assert policy.cache_error() < 1e-6
    for _ in range(980):
        policy.update(*batch(1000))
    x, y = batch(500)  # leave it with a cache that rank-one updates made
    for i in range(500):
        policy.update(x[i], y[i])
    assert policy.state.num_observations == 1_000_500
    arms = ((rng.normal(size=(50, DIM)) * scales) @ rotation).astype(np.float32)
    width_sq, mean, size = _oracle(V, b, arms)
    mu_hat, width, *_ = policy._estimate("test", torch.from_numpy(arms), None)
    got = width.detach().double().square().numpy()
    assert (got >= 0).all()
    assert np.abs(got / width_sq - 1).max() < 1e-5
    assert np.abs(mu_hat.double().numpy() - mean).max() < 1e-5 * size
    assert policy.cache_error() < 1e-6


@pytest.mark.parametrize("path", ["single", "many", "rows", "discount"])
def test_a_disturbed_cache_raises_no_later_than_the_next_refresh(path):
    policy = SoftUCBPolicy(4, refresh_every=50)
    policy.reset(batch_shape=(3,))
    for _ in range(60):
        policy.update(torch.randn(3, 4), torch.randn(3))
    policy.state.root[1].mul_(1 + 1e-3)
    assert policy.cache_error()[1] > 1e-4
    before = policy.statistics.clone()

    def some_more():
        for _ in range(50):
            before.copy_(policy.statistics)
            if path == "single":
                policy.update(torch.randn(3, 4), torch.randn(3))
            elif path == "many":
                policy.update(torch.randn(3, 2, 4), torch.randn(3, 2))
            elif path == "discount":
                policy.update(torch.randn(3, 4), torch.randn(3), discount=0.98)
            else:
                policy.update(torch.randn(1, 4), torch.randn(1), bandit=torch.tensor([1]))

    with pytest.raises(NumericalError, match=r"root is off by .* in 1 of .* bandits, the first after \d+ observations"):
        some_more()
    assert policy.statistics.equal(before)
    policy.refresh()
    assert policy.cache_error().max() < 1e-12
    policy.update(torch.randn(3, 4), torch.randn(3))


@pytest.mark.parametrize("refresh_every", [1, 7, 1024])
def test_the_schedule_does_not_change_the_answer(refresh_every):
    g = torch.Generator().manual_seed(0)
    policy = SoftUCBPolicy(5, refresh_every=refresh_every, dtype=torch.double)
    x, y = torch.randn(200, 5, generator=g).double(), torch.randn(200, generator=g).double()
    for i in range(200):
        policy.update(x[i], y[i])
    arms = torch.randn(9, 5, generator=g).double()
    inverse = torch.linalg.inv(torch.eye(5).double() + x.T @ x)
    torch.testing.assert_close(policy(arms).width.detach().square(), (arms @ inverse * arms).sum(-1), atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_many_requests_in_float32_are_as_exact_as_few(scale, seeded):
    """Well-conditioned statistics are multiplied in float32, others in float64: widths within 1e-4 either way."""
    g = seeded(3)
    x = torch.randn(4000, 16, generator=g) * torch.logspace(0, math.log10(scale), 16)
    policy, exact = SoftUCBPolicy(16), SoftUCBPolicy(16, dtype=torch.double)
    policy.update(x, x[:, 0])
    exact.update(x.double(), x[:, 0].double())
    assert F.low_precision_suffices(policy.state.V, policy.state.root, torch.float32) == (scale == 1.0)
    arms = torch.cat([x[:1000], torch.randn(1000, 16, generator=g)]).view(4, 500, 16)
    for context in (torch.no_grad(), torch.enable_grad()):
        with context:
            got, want = policy(arms), exact(arms.double())
        assert ((got.width - want.width).abs() / want.width).max() < 1e-4
        torch.testing.assert_close(got.mu_hat.double(), want.mu_hat, atol=1e-5 * scale, rtol=1e-5)
