import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from torch_softucb import functional as F

COLDNESS = {"current": F.coldness, "smooth": F.smooth_coldness}


def test_coldness_by_hand():
    # two arms below 0, max S = 0.5: log(0.9 * 2 / 0.1) / 0.5 = 2 log 18
    S = torch.tensor([0.5, 0.1, -0.3, -0.5], dtype=torch.double)
    assert F.coldness(S, 0.9).item() == pytest.approx(2 * math.log(18))


def test_smooth_coldness_by_hand():
    # kappa max S = 0.05: n = exp(-10) + exp(-2) + 1 + 1; log(1 + 9 n) / 0.5
    S = torch.tensor([0.5, 0.1, -0.3, -0.5], dtype=torch.double)
    n = math.exp(-10) + math.exp(-2) + 2
    assert F.smooth_coldness(S, 0.9).item() == pytest.approx(2 * math.log(1 + 9 * n))


@pytest.mark.parametrize("mode", COLDNESS)
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_coldness_and_probabilities_equal_the_reference(mode, with_mask, batch):
    g = torch.Generator().manual_seed(3)
    S = torch.randn(*batch, 8, generator=g, dtype=torch.double)
    mask = torch.rand(*batch, 8, generator=g) > 0.3 if with_mask else torch.ones(*batch, 8, dtype=torch.bool)
    mask[..., 0] = True
    given_mask = mask if with_mask else None
    gamma = COLDNESS[mode](S, 0.95, mask=given_mask)
    probs = F.arm_probabilities(S, gamma, mask=given_mask)
    slow = reference.coldness if mode == "current" else reference.smooth_coldness
    rows = zip(*(v.reshape(-1, 8).tolist() for v in (S, mask, probs)), gamma.reshape(-1).tolist(), strict=True)
    for s, ok, p, c in rows:
        assert c == pytest.approx(slow(s, 0.95, ok), abs=1e-12)
        assert p == pytest.approx(reference.probabilities(s, c, ok), abs=1e-12)


@settings(max_examples=4000)  # 2,000 a mode
@given(
    seed=st.integers(0, 2**31),
    k=st.integers(1, 40),
    delta=st.floats(0.5, 0.9999),
    shift=st.floats(-2, 2),
    mode=st.sampled_from(["current", "smooth"]),
    masked=st.booleans(),
)
def test_lemma_2(seed, k, delta, shift, mode, masked):
    """Suboptimal arms together get less than 1 - delta whenever some S > 0 (else departure D1 holds)."""
    g = torch.Generator().manual_seed(seed)
    S = torch.randn(k, generator=g, dtype=torch.double) + shift
    mask = torch.rand(k, generator=g) > 0.5 if masked else None
    if mask is not None:
        mask[0] = True
    gamma = COLDNESS[mode](S, delta, mask=mask)
    probs = F.arm_probabilities(S, gamma, mask=mask)
    allowed = torch.ones(k, dtype=torch.bool) if mask is None else mask
    assert gamma >= 0
    assert probs.sum() == pytest.approx(1)
    assert (probs[~allowed] == 0).all()
    if S[allowed].max() > 0:
        assert probs[allowed & (S < 0)].sum() < (1 - delta) * (1 + 1e-9)
    else:
        assert gamma == 0  # D1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mode", COLDNESS)
@pytest.mark.parametrize(
    "S", [[0.0, 0.0, 0.0], [0.0, -1.0, -2.0], [1.0, 2.0, 3.0], [5.0]], ids=["all 0", "beta 0", "empty L", "K=1"]
)
def test_d1_no_inf_or_nan_forward_or_backward(mode, S, dtype):
    S = torch.tensor(S, dtype=dtype, requires_grad=True)
    gamma = COLDNESS[mode](S, 0.99)
    probs = F.arm_probabilities(S, gamma)
    probs.square().sum().backward()
    assert gamma.dtype == dtype
    assert gamma.isfinite()
    assert S.grad.isfinite().all()
    if mode == "current" or S.max() <= 0:
        assert gamma == 0
        torch.testing.assert_close(probs, torch.full_like(probs, 1 / len(probs)))


def test_smooth_is_continuous_in_beta_where_current_jumps():
    """Over a fine grid of beta the largest step of `current` stays; that of `smooth` shrinks with the grid."""
    g = torch.Generator().manual_seed(0)
    mu_hat = torch.randn(30, generator=g, dtype=torch.double)
    width = 0.5 + 0.5 * torch.rand(30, generator=g, dtype=torch.double)  # so that L becomes empty within the grid

    def largest_step(mode, points):
        beta = torch.linspace(0.5, 6.0, points, dtype=torch.double)
        wide = (points, 30)
        S = F.soft_ucb_index(mu_hat.expand(wide), width.expand(wide), beta)
        probs = F.arm_probabilities(S, COLDNESS[mode](S, 0.99))
        return probs.diff(dim=0).abs().max().item()

    assert largest_step("current", 100_001) > 0.02
    assert largest_step("current", 100_001) > 0.5 * largest_step("current", 10_001)
    assert largest_step("smooth", 100_001) < 1e-3
    assert largest_step("smooth", 100_001) < 0.2 * largest_step("smooth", 10_001)


@pytest.mark.parametrize("delta", [0.49, 1.0, 0.0, -1.0, float("nan"), 2])
@pytest.mark.parametrize("mode", COLDNESS)
def test_d2_delta_out_of_range(mode, delta):
    with pytest.raises(ValueError, match=r"delta must be in \[0.5, 1\)"):
        COLDNESS[mode](torch.rand(3), delta)


def test_greedy_shares_ties_and_heeds_the_mask():
    probs = F.greedy_probabilities(torch.tensor([3.0, 1.0, 3.0, 3.0]), mask=torch.tensor([True, True, True, False]))
    torch.testing.assert_close(probs, torch.tensor([0.5, 0.0, 0.5, 0.0]))


def test_masked_arms_have_no_influence():
    S = torch.tensor([0.5, -0.5, 9.0])
    mask = torch.tensor([True, True, False])
    for mode in COLDNESS.values():
        assert mode(S, 0.9, mask=mask) == mode(S[:2], 0.9)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("with_mask", [False, True])
def test_probabilities_of_a_transposed_index_are_those_of_its_copy(grad, with_mask, seeded):
    index = 300 * torch.randn(4, 5, 3, dtype=torch.double, generator=seeded(0)).movedim(0, -1)  # (5, 3, 4), not contiguous
    gamma = 3 * torch.rand(5, 3, dtype=torch.double, generator=seeded(1))  # logits up to 1,000: exp of them overflows
    mask = torch.rand(4, 5, 3, generator=seeded(2)).movedim(0, -1) < 0.7 if with_mask else None
    if mask is not None:
        mask[..., 0] = True
    index.requires_grad_(grad)
    with torch.set_grad_enabled(grad):
        got, want = (F.arm_probabilities(values, gamma, mask=mask) for values in (index, index.contiguous()))
        assert mask is not None or not got.is_contiguous()  # the layout is kept
        torch.testing.assert_close(got, want, atol=1e-14, rtol=1e-12)
        if grad:
            weights = torch.arange(4.0, dtype=torch.double)
            (ours,) = torch.autograd.grad((got * weights).sum(), index)
            (theirs,) = torch.autograd.grad((want * weights).sum(), index)
            torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-10)


def test_an_index_of_exactly_0_is_not_in_l():
    assert F.coldness(torch.tensor([0.5, 0.0], dtype=torch.double), 0.9) == 0  # nothing is below 0
    with_zero = F.coldness(torch.tensor([0.5, 0.0, -1.0], dtype=torch.double), 0.9)
    assert with_zero == F.coldness(torch.tensor([0.5, 0.1, -1.0], dtype=torch.double), 0.9)
