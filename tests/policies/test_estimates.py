"""Estimates from statistics, against inverse matrices."""

import pytest
import torch

from torch_softucb.policies.estimates import estimate_arms, running_sums
from torch_softucb.policies.fast_path import MAX_FEATURES
from torch_softucb.policies.rows import RowLayout, observe_many

D, DIM = torch.double, 4


def _state(seeded, batch=()):
    layout = RowLayout(DIM, 2)
    x = torch.randn(*batch, 9, DIM, dtype=D, generator=seeded(0))
    y = torch.randn(*batch, 9, dtype=D, generator=seeded(1))
    old = layout.unpack(layout.fresh(batch, 0.5, torch.tensor([9.0, 0.0])))
    count = torch.full(batch, 9.0, dtype=D)
    state = observe_many(old, x.mT @ x, (x.mT @ y.unsqueeze(-1)).squeeze(-1), count, count)
    return state._replace(memory=torch.stack((count, y.square().sum(-1)), -1)), x, y


def _estimate(state, arms, pending=None, **settings):
    return estimate_arms("test", state, arms, pending, **({"convert_memory": False, "sums": None} | settings))


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("dtype", [torch.float32, D])
def test_means_widths_and_draws_are_the_definition(batch, dtype, seeded):
    state, _, _ = _state(seeded, batch)
    arms = torch.randn(6, DIM, generator=seeded(2)).to(dtype)
    got = _estimate(state, arms)
    inverse = torch.linalg.inv(state.V)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    theta = (inverse @ state.b.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(got.mu_hat.double(), theta @ arms.double().T, atol=tolerance, rtol=0)
    width = torch.einsum("kd,...de,ke->...k", arms.double(), inverse, arms.double()).sqrt()
    torch.testing.assert_close(got.width.double(), width, atol=tolerance, rtol=0)
    assert (got.mu_hat.dtype, got.width.dtype) == (dtype, dtype)
    columns = torch.stack([got.perturb(z.expand(*batch, DIM)) for z in torch.eye(DIM, dtype=dtype)], -1).double()
    torch.testing.assert_close((columns @ columns.mT).diagonal(dim1=-2, dim2=-1), width**2, atol=10 * tolerance, rtol=0)


def test_pending_pulls_narrow_the_width_and_leave_the_mean(seeded):
    state, x, _ = _state(seeded)
    arms, pending = torch.randn(6, DIM, dtype=D, generator=seeded(2)), torch.outer(x[0], x[0])
    plain, got = _estimate(state, arms), _estimate(state, arms, pending)
    assert got.mu_hat.equal(plain.mu_hat)
    want = (arms @ torch.linalg.inv(state.V + pending) * arms).sum(-1).sqrt()
    torch.testing.assert_close(got.width, want, atol=1e-12, rtol=0)
    assert (got.width < plain.width).all()


def test_large_sets_of_arms_have_the_same_estimates(seeded):
    state, _, _ = _state(seeded)
    arms = torch.randn(MAX_FEATURES // DIM + 1, DIM, generator=seeded(2))
    with torch.no_grad():
        blocks = _estimate(state, arms)
    small = _estimate(state, arms[:9].double())
    torch.testing.assert_close(blocks.mu_hat[:9].double(), small.mu_hat, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(blocks.width[:9].double(), small.width, atol=1e-5, rtol=1e-5)


def test_memory_and_root_are_converted_on_request(seeded):
    state, _, _ = _state(seeded)
    arms = torch.eye(DIM)
    assert _estimate(state, arms).memory.dtype == D
    converted = _estimate(state, arms, convert_memory=True)
    assert (converted.memory.dtype, converted.root.dtype) == (torch.float32, torch.float32)


def test_running_sums_are_count_residual_and_determinant(seeded):
    state, x, y = _state(seeded)
    count, residual, log_det = running_sums(state, 0.5)
    theta = torch.linalg.solve(state.V, state.b)
    assert count == 9
    want = (y - x @ theta).square().sum() + 0.5 * theta.square().sum()  # of the ridge regression
    torch.testing.assert_close(residual, want)
    torch.testing.assert_close(log_det, torch.logdet(state.V / 0.5))


def test_a_feature_that_is_not_finite_is_named(seeded):
    state, _, _ = _state(seeded)
    arms = torch.ones(6, DIM, dtype=D)
    arms[2, 1] = float("inf")
    with pytest.raises(
        ValueError, match=r"test: arms must be finite, got 1 NaN or infinite of 24 values, the first at \(2, 1\)"
    ):
        _estimate(state, arms)
