import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests import reference
from torch_softucb import NumericalError
from torch_softucb import functional as F


def _history(seed, dim, rounds, alpha, batch=()):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(*batch, rounds, dim, generator=g, dtype=torch.double)
    V = alpha * torch.eye(dim, dtype=torch.double) + x.mT @ x
    return x, V, g


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_root_squared_is_the_inverse(batch):
    _, V, _ = _history(0, 6, 9, 0.3, batch)
    root = F.ridge_root(V)
    torch.testing.assert_close(root @ root.mT, torch.linalg.inv(V), atol=1e-12, rtol=1e-10)
    assert (F.ridge_cache_error(V, root) < 1e-12).all()


@given(seed=st.integers(0, 2**31), dim=st.integers(1, 12), alpha=st.floats(0.01, 10), scale=st.floats(1e-3, 10))
def test_rank_one_update_equals_a_fresh_root(seed, dim, alpha, scale):
    """cond(V) up to about 1e5 here, of which float64 keeps 1e-11."""
    _, V, g = _history(seed, dim, 4, alpha)
    new = torch.randn(dim, generator=g, dtype=torch.double) * scale
    root = F.ridge_root_update(F.ridge_root(V), new)
    assert F.ridge_cache_error(V + torch.outer(new, new), root) < 1e-9


@given(seed=st.integers(0, 2**31), dim=st.integers(1, 8))
def test_widths_never_grow(seed, dim):
    _, V, g = _history(seed, dim, 3, 0.5)
    arms = torch.randn(7, dim, generator=g, dtype=torch.double)
    root, b = F.ridge_root(V), torch.zeros(dim, dtype=torch.double)
    after = F.ridge_root_update(root, torch.randn(dim, generator=g, dtype=torch.double))
    assert (F.ridge_estimate(arms, after, b)[1] <= F.ridge_estimate(arms, root, b)[1] * (1 + 1e-12)).all()


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("shared", [True, False])
def test_estimates_equal_the_reference(batch, shared):
    x, V, g = _history(1, 4, 5, 2.5, batch)
    y = torch.randn(*batch, 5, generator=g, dtype=torch.double)
    arms = torch.randn(*(() if shared else batch), 6, 4, generator=g, dtype=torch.double)
    b = (x.mT @ y.unsqueeze(-1)).squeeze(-1)
    mu_hat, width = F.ridge_estimate(arms, F.ridge_root(V), b)
    every = arms.expand(*batch, 6, 4).reshape(-1, 6, 4)
    for r, (v, bb) in enumerate(zip(V.reshape(-1, 4, 4), b.reshape(-1, 4), strict=True)):
        m, w = reference.estimates(every[r].numpy(), v.numpy(), bb.numpy())
        np.testing.assert_allclose(mu_hat.reshape(-1, 6)[r], m, atol=1e-10)
        np.testing.assert_allclose(width.reshape(-1, 6)[r], w, atol=1e-10)


def test_a_zero_feature_vector_has_width_0_and_gradient_0():
    arms = torch.zeros(2, 3, requires_grad=True)
    F.ridge_estimate(arms, torch.eye(3), torch.zeros(3))[1].sum().backward()
    assert (arms.grad == 0).all()


def test_a_matrix_that_is_not_positive_definite_is_refused():
    with pytest.raises(NumericalError, match="V is not positive definite in 1 of 2 bandits"):
        F.ridge_root(torch.stack((torch.eye(2), -torch.eye(2))))


@pytest.mark.parametrize("shape", [(1, 3), (2048, 3), (5, 700, 3), (2, 3, 1000, 3)])
def test_blocks_are_the_same_estimate(shape, seeded):
    g = seeded(0)
    x = torch.randn(9, 3, dtype=torch.double, generator=g)
    V, b = 0.5 * torch.eye(3).double() + x.mT @ x, torch.randn(3, dtype=torch.double, generator=g)
    arms = torch.randn(shape, dtype=torch.double, generator=g)
    root = F.ridge_root(V)
    for got, want in zip(F.ridge_estimate_blocks(arms, root, b), F.ridge_estimate(arms, root, b), strict=True):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=0)
    short = F.ridge_estimate_blocks(arms.float(), root, b)  # float32 arms, float64 arithmetic
    assert short[0].dtype == torch.float32
    torch.testing.assert_close(short[1].double(), torch.linalg.vector_norm(arms @ root, dim=-1), atol=0, rtol=1e-6)


@pytest.mark.parametrize("spread", [1.0, 30.0, 1e3])
def test_where_short_is_enough_widths_are_within_1e_4(spread, seeded):
    """Also in the direction that was pulled most, where cancellation is worst; beyond the limit it says so."""
    g = seeded(1)
    axes = torch.linalg.qr(torch.randn(16, 16, dtype=torch.double, generator=g))[0]
    eigenvalues = torch.logspace(0, 2 * math.log10(spread), 16, dtype=torch.double)
    V = axes @ eigenvalues.diag() @ axes.mT
    root, b = F.ridge_root(V), torch.zeros(16, dtype=torch.double)
    enough = F.low_precision_suffices(V, root, torch.float32)
    assert enough == (spread < 1e3)
    arms = torch.cat([axes.mT, torch.randn(500, 16, dtype=torch.double, generator=g)]).float()
    exact = torch.linalg.vector_norm(arms.double() @ root, dim=-1)
    got = F.ridge_estimate_blocks(arms, root.float(), b.float())[1].double()
    if enough:
        assert ((got - exact).abs() / exact).max() < 1e-4
