"""The slope of the logits against autograd, and the trajectory's gradient against finite differences."""

import pytest
import torch

from torch_softucb import functional as F
from torch_softucb.functional.softmax import _coldness, _smooth_coldness, max_index

D = torch.double


@pytest.mark.parametrize("smoothing", [None, 0.1, 0.5])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [0.05, 0.5, 2.0])
def test_probabilities_move_as_autograd_says(smoothing, masked, scale, seeded):
    g = seeded(0)
    mu_hat, width = torch.randn(40, 7, dtype=D, generator=g), torch.rand(40, 7, dtype=D, generator=g) + 0.05
    beta = (scale * torch.rand(40, dtype=D, generator=g)).requires_grad_()
    mask = torch.rand(40, 7, generator=g) > 0.3 if masked else None
    if masked:
        mask[:, 2] = True

    def probs(beta):
        index = F.soft_ucb_index(mu_hat, width, beta, mask=mask)
        if smoothing is None:
            gamma = F.coldness(index, 0.9, mask=mask)
        else:
            gamma = F.smooth_coldness(index, 0.9, smoothing=smoothing, mask=mask)
        return F.arm_probabilities(index, gamma, mask=mask), index, gamma

    p, index, gamma = probs(beta)
    slope = F.logit_slope(mu_hat, width, beta, index, gamma, delta=0.9, smoothing=smoothing, mask=mask).detach()
    means, arm = torch.randn(40, 7, dtype=D, generator=g), p.argmax(-1)
    got = F.trajectory_score(p.detach(), slope, means, arm)
    (present,) = torch.autograd.grad((p * means).sum(), beta, retain_graph=True)
    (score,) = torch.autograd.grad(p.gather(-1, arm.unsqueeze(-1)).log().sum(), beta)
    torch.testing.assert_close(got.present, present, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(got.score, score, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(got.reward, (p * means).sum(-1).detach())
    assert slope.isfinite().all()


def test_nothing_to_eliminate_is_flat():
    """beta = 0: max S = 0, gamma = 0, and a little more beta keeps the policy uniform."""
    mu_hat, width, beta = torch.zeros(3, dtype=D), torch.ones(3, dtype=D), torch.zeros((), dtype=D)
    index = F.soft_ucb_index(mu_hat, width, beta)
    slope = F.logit_slope(mu_hat, width, beta, index, torch.zeros((), dtype=D), delta=0.9, smoothing=0.1)
    assert (slope == 0).all()


@pytest.mark.parametrize("smoothing", [None, 0.1])
@pytest.mark.parametrize("masked", [False, True])
def test_probabilities_move_with_delta_as_autograd_says(smoothing, masked, seeded):
    g = seeded(0)
    index = torch.randn(40, 7, dtype=D, generator=g)
    index[0] = index[0].abs()  # nothing to eliminate
    index[1] = -index[1].abs()  # max S < 0
    mask = torch.rand(40, 7, generator=g) > 0.3 if masked else None
    if masked:
        mask[:, 2] = True
    logit = torch.full((), 2.0, dtype=D, requires_grad=True)
    delta = torch.sigmoid(logit)
    if smoothing is None:
        gamma = _coldness(index, delta, mask, max_index(index, mask))
    else:
        gamma = _smooth_coldness(index, delta, smoothing, mask, max_index(index, mask))
    for i in range(40):
        slope = torch.autograd.grad(gamma[i], logit, retain_graph=True)[0] * index[i]
        got = F.delta_slope(index, delta=float(delta), smoothing=smoothing, mask=mask)[i]
        allowed = slice(None) if mask is None else mask[i]
        torch.testing.assert_close(got[allowed], slope[allowed], atol=1e-10, rtol=0)


@pytest.mark.parametrize("smoothing", [None, 0.1])
def test_slopes_are_0_where_the_largest_index_is_0(smoothing):
    index = torch.tensor([[0.0, -1.0], [-0.5, -2.0]], dtype=D)
    assert F.delta_slope(index, delta=0.9, smoothing=smoothing).equal(torch.zeros(2, 2, dtype=D))
    gamma, width = torch.tensor([0.5, 0.5], dtype=D), torch.ones(2, 2, dtype=D)
    slope = F.logit_slope(index, width, torch.ones(2, dtype=D), index, gamma, delta=0.9, smoothing=smoothing)
    assert slope.equal(gamma.unsqueeze(-1) * width)  # gamma itself does not move


def test_delta_moves_nothing_if_no_index_is_below_0():
    assert F.delta_slope(torch.tensor([0.5, 0.0], dtype=D), delta=0.9, smoothing=None).equal(torch.zeros(2, dtype=D))
    moved = F.delta_slope(torch.tensor([0.5, 0.0, -0.1], dtype=D), delta=0.5, smoothing=None)  # |L| odds = 1
    torch.testing.assert_close(moved, torch.tensor([1.0, 0.0, -0.2], dtype=D))
