import pytest
import torch

from torch_softucb import NumericalError
from torch_softucb import functional as F


def _norms(arms, weights):
    """Literal: x_i . inverse(sum_k p_k x_k x_k^T) x_i, by loops."""
    V = sum(p * torch.outer(x, x) for p, x in zip(weights, arms, strict=True))
    return torch.stack([x @ torch.linalg.pinv(V, hermitian=True) @ x for x in arms])


@pytest.mark.parametrize(("num_arms", "dim"), [(50, 10), (50, 20), (8, 3), (5, 5), (3, 1), (200, 4)])
def test_kiefer_wolfowitz(num_arms, dim, seeded):
    """The largest norm is within d (1 + 1e-3), weights are a distribution, and used arms have norm d."""
    arms = torch.randn(4, num_arms, dim, dtype=torch.double, generator=seeded(dim))
    weights, most = F.g_optimal_design(arms)
    torch.testing.assert_close(weights.sum(-1), torch.ones(4).double())
    assert (weights >= 0).all()
    for x, p, g in zip(arms, weights, most, strict=True):
        norms = _norms(x, p)
        assert norms.max().item() == pytest.approx(g.item(), rel=1e-6)
        assert norms.max() <= dim * (1 + 1e-3)
        assert (p @ norms).item() == pytest.approx(dim, rel=1e-9)  # always so
        assert (norms[p > 1e-3] > dim * 0.98).all()


def test_only_allowed_arms_are_used_and_a_smaller_span_has_a_smaller_norm(seeded):
    arms = torch.randn(6, 4, dtype=torch.double, generator=seeded(0))
    mask = torch.tensor([True, True, True, False, False, False])
    weights, most = F.g_optimal_design(arms, mask=mask)
    assert (weights[3:] == 0).all()
    torch.testing.assert_close(weights[:3], torch.full((3,), 1 / 3).double(), atol=1e-3, rtol=0)
    assert most.item() == pytest.approx(3, rel=1e-3)
    one, least = F.g_optimal_design(arms, mask=torch.arange(6) == 4)
    assert one.tolist() == [0, 0, 0, 0, 1, 0]
    assert least.item() == pytest.approx(1)


def test_equal_arms_and_float32(seeded):
    arms = torch.ones(5, 2)
    weights, most = F.g_optimal_design(arms)
    assert weights.sum().item() == pytest.approx(1)
    assert most.item() == pytest.approx(1, rel=1e-3)
    assert weights.dtype == torch.float32


def test_a_design_that_is_close_but_not_close_enough_is_refused():
    arms = torch.eye(3, dtype=torch.double)[[0, 0, 1, 2]]  # equal weights have norms 2, 2, 4, 4; the optimum is 3
    with pytest.raises(NumericalError, match="not within 1e-09 of the optimum after 1 steps"):
        F.g_optimal_design(arms, tolerance=1e-9, max_steps=1)
