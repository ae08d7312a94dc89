import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from torch_softucb import functional as F


def _draw(seed, k, batch=()):
    g = torch.Generator().manual_seed(seed)
    mu_hat = torch.randn(*batch, k, generator=g, dtype=torch.double)
    width = torch.rand(*batch, k, generator=g, dtype=torch.double)
    return mu_hat, width, g


def test_by_hand():
    # LCB = (0.9, -0.2, 0.5 - 0.6), largest 0.9; UCB = (1.1, 0.2, 1.1); S = UCB - 0.9
    S = F.soft_ucb_index(torch.tensor([1.0, 0.0, 0.5]), torch.tensor([0.1, 0.2, 0.6]), torch.tensor(1.0))
    torch.testing.assert_close(S, torch.tensor([0.2, -0.7, 0.2]))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("with_mask", [False, True])
def test_equals_eq_7_written_out(batch, with_mask):
    mu_hat, width, g = _draw(0, 7, batch)
    beta = torch.rand(batch, generator=g, dtype=torch.double)
    mask = torch.rand(*batch, 7, generator=g) > 0.4 if with_mask else torch.ones(*batch, 7, dtype=torch.bool)
    mask[..., 2] = True
    S = F.soft_ucb_index(mu_hat, width, beta, mask=mask if with_mask else None)
    flat = zip(*(v.reshape(-1, 7).tolist() for v in (mu_hat, width, mask, S)), beta.reshape(-1).tolist(), strict=True)
    for m, w, ok, s, bt in flat:
        assert s == pytest.approx(reference.index(m, w, bt, ok), abs=1e-12)


@settings(max_examples=2000)
@given(seed=st.integers(0, 2**31), k=st.integers(1, 20), beta=st.floats(0, 5))
def test_lemma_1(seed, k, beta):
    """Where every confidence bound holds, S_i < 0 finds suboptimal arms only; and S orders arms as UCB does."""
    mu_hat, width, g = _draw(seed, k)
    mu = mu_hat + beta * width * (2 * torch.rand(k, generator=g, dtype=torch.double) - 1)  # |mu - mu_hat| <= beta width
    S = F.soft_ucb_index(mu_hat, width, torch.tensor(beta, dtype=torch.double))
    assert (mu.max() - mu[S < -1e-12] > 0).all()
    ucb = mu_hat + beta * width
    order = S.argsort()
    assert (ucb[order].diff() >= -1e-12).all()


def test_arms_permuted_permutes_the_index():
    mu_hat, width, g = _draw(1, 9)
    p, beta = torch.randperm(9, generator=g), torch.tensor(0.7, dtype=torch.double)
    torch.testing.assert_close(F.soft_ucb_index(mu_hat[p], width[p], beta), F.soft_ucb_index(mu_hat, width, beta)[p])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"width": torch.rand(4)}, "width must have shape"),
        ({"beta": torch.rand(2)}, "beta must have shape"),
        ({"mu_hat": torch.rand(())}, "mu_hat must have shape"),
        ({"mask": torch.zeros(3, dtype=torch.bool)}, "mask must allow at least one arm"),
    ],
)
def test_bad_input(change, match):
    inputs = {"mu_hat": torch.rand(3), "width": torch.rand(3), "beta": torch.tensor(1.0), "mask": None} | change
    with pytest.raises(ValueError, match=match):
        F.soft_ucb_index(inputs["mu_hat"], inputs["width"], inputs["beta"], mask=inputs["mask"])
