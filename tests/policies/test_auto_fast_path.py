"""One bandit in numpy against a batch of one in torch."""

import pytest
import torch

from torch_softucb import AutoSoftUCB, SummaryBeta

D = torch.double


def _bent():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = SummaryBeta(horizon=100, init=1.3)
        for parameter in module.parameters():
            parameter.data.add_(0.2 * torch.randn_like(parameter))
    return module


@pytest.mark.parametrize("dtype", [torch.float32, D])
@pytest.mark.parametrize("beta", [1.4, "module"])
def test_decisions_and_statistics_agree(dtype, beta):
    g = torch.Generator().manual_seed(0)
    beta = _bent() if beta == "module" else beta
    one, batch = (AutoSoftUCB(4, beta_init=beta, delta=0.99, dtype=dtype) for _ in range(2))
    batch.reset(batch_shape=(1,))
    tolerance = 1e-9 if dtype == D else 1e-4
    for t in range(120):
        arms = torch.randn(7, 4, dtype=dtype, generator=g)
        mask = torch.rand(7, generator=g) < 0.6 if t % 3 else None
        if mask is not None:
            mask[2] = True
        with torch.no_grad():
            a, b = one(arms, mask=mask), batch(arms, mask=mask)
        for name in ("probs", "index", "mu_hat", "width", "gamma"):
            torch.testing.assert_close(getattr(a, name), getattr(b, name)[0], atol=tolerance, rtol=tolerance)
        torch.testing.assert_close(a.beta, b.beta.reshape(()), atol=1e-6, rtol=1e-6)
        x, reward = arms[t % 7], 50 + 3 * torch.randn((), dtype=dtype, generator=g)
        one.update(x, reward)
        batch.update(x[None], reward[None])
        torch.testing.assert_close(one.statistics, batch.statistics[0], atol=1e-9, rtol=1e-9)
