import math

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from tests import reference
from torch_softucb import functional as F


def _inputs(batch=(2,), k=5, seed=0, grad=False):
    g = torch.Generator().manual_seed(seed)
    beta = torch.rand(batch, generator=g, dtype=torch.double) + 0.2
    mu_hat = torch.randn(*batch, k, generator=g, dtype=torch.double)
    width = torch.rand(*batch, k, generator=g, dtype=torch.double)
    gamma = 4 * torch.rand(batch, generator=g, dtype=torch.double)
    return tuple(v.requires_grad_(grad) for v in (beta, mu_hat, width, gamma))


MASK = torch.tensor([True, False, True, True, False])


def _plain(beta, mu_hat, width, gamma, mask=None):
    logits = gamma.unsqueeze(-1) * (mu_hat + beta.unsqueeze(-1) * width)
    if mask is not None:
        logits = logits.masked_fill(~mask, -math.inf)
    return (logits.softmax(-1) * mu_hat).sum(-1)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("mask", [None, MASK])
def test_value_and_gradients_equal_plain_autograd(batch, mask):
    inputs = _inputs(batch, grad=True)
    got = torch.autograd.grad(F.expected_reward(*inputs, mask=mask).sum(), inputs)
    want = torch.autograd.grad(_plain(*inputs, mask=mask).sum(), inputs)
    torch.testing.assert_close(F.expected_reward(*inputs, mask=mask), _plain(*inputs, mask=mask), atol=1e-12, rtol=0)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


@pytest.mark.parametrize("mask", [None, MASK])
def test_gradcheck_in_all_four_inputs(mask):
    assert gradcheck(lambda *v: F.expected_reward(*v, mask=mask), _inputs(grad=True))


@pytest.mark.parametrize("mask", [None, MASK])
def test_second_derivatives_are_right(mask):
    assert gradgradcheck(lambda *v: F.expected_reward(*v, mask=mask), _inputs(grad=True))


@pytest.mark.parametrize("mask", [None, MASK])
def test_beta_gradient_is_eq_13_written_with_loops(mask):
    beta, mu_hat, width, gamma = _inputs((20,), grad=True)
    (got,) = torch.autograd.grad(F.expected_reward(beta, mu_hat, width, gamma, mask=mask).sum(), beta)
    index = F.soft_ucb_index(mu_hat, width, beta, mask=mask)
    value, closed = F.reward_and_gradient(F.arm_probabilities(index, gamma, mask=mask), mu_hat, width, gamma)
    allowed = [True] * 5 if mask is None else mask.tolist()
    for r in range(20):
        m, w = mu_hat[r].tolist(), width[r].tolist()
        S = reference.index(m, w, beta[r].item(), allowed)
        want = reference.reward_gradient(S, m, w, gamma[r].item(), beta[r].item(), allowed)
        assert got[r].item() == pytest.approx(want, abs=1e-12)
        assert closed[r].item() == pytest.approx(want, abs=1e-12)
        p = reference.probabilities(S, gamma[r].item(), allowed)
        assert value[r].item() == pytest.approx(sum(a * b for a, b in zip(p, m, strict=True)), abs=1e-12)


def test_beta_may_be_one_number_for_all():
    _, mu_hat, width, gamma = _inputs((3,))
    beta = torch.tensor(0.4, dtype=torch.double, requires_grad=True)
    (got,) = torch.autograd.grad(F.expected_reward(beta, mu_hat, width, gamma).sum(), beta)
    each = torch.full((3,), 0.4, dtype=torch.double, requires_grad=True)
    (want,) = torch.autograd.grad(F.expected_reward(each, mu_hat, width, gamma).sum(), each)
    torch.testing.assert_close(got, want.sum())


def test_under_vmap_and_func_grad():
    inputs = _inputs((4,))
    torch.testing.assert_close(torch.func.vmap(F.expected_reward)(*inputs), F.expected_reward(*inputs))
    grad = torch.func.vmap(torch.func.grad(F.expected_reward))(*inputs)
    beta = inputs[0].clone().requires_grad_()
    (want,) = torch.autograd.grad(F.expected_reward(beta, *inputs[1:]).sum(), beta)
    torch.testing.assert_close(grad, want)
    masks = torch.rand(4, 5) > 0.3
    masks[:, 0] = True
    mapped = torch.func.vmap(lambda b, m, w, c, ok: F.expected_reward(b, m, w, c, mask=ok))(*inputs, masks)
    torch.testing.assert_close(mapped, F.expected_reward(*inputs, mask=masks))


@pytest.mark.slow
def test_under_compile_without_graph_breaks():
    inputs = _inputs((4,), grad=True)
    compiled = torch.compile(F.expected_reward, fullgraph=True)
    torch.testing.assert_close(compiled(*inputs), F.expected_reward(*inputs))
    got = torch.autograd.grad(compiled(*inputs).sum(), inputs)
    want = torch.autograd.grad(F.expected_reward(*inputs).sum(), inputs)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)
    masked = torch.compile(lambda *v: F.expected_reward(*v, mask=MASK), fullgraph=True)
    torch.testing.assert_close(masked(*inputs), F.expected_reward(*inputs, mask=MASK))


def test_under_no_grad_and_saves_only_its_inputs():
    inputs = _inputs(grad=True)
    with torch.no_grad():
        assert not F.expected_reward(*inputs).requires_grad
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        F.expected_reward(*inputs)
    assert {t.shape[-1] for t in saved} == {1, 5}
    assert len(saved) == 4


def test_large_gamma_keeps_its_digits_in_float32():
    """Upper bounds near 1 that differ by 1e-4, gamma 1e4: the products are large, their differences are not."""
    mu_hat, width = torch.tensor([1.0, 0.9999]), torch.tensor([0.1, 0.1])
    got = F.expected_reward(torch.tensor(1.0), mu_hat, width, torch.tensor(1e4))
    gap = mu_hat.double().diff().neg().item()
    p = 1 / (1 + math.exp(-1e4 * gap))
    assert got.item() == pytest.approx(p * 1.0 + (1 - p) * (1 - gap), abs=1e-6)


def test_gamma_zero_gives_the_mean_and_no_beta_gradient():
    beta, mu_hat, width, _ = _inputs(grad=True)
    value = F.expected_reward(beta, mu_hat, width, torch.zeros(2, dtype=torch.double))
    torch.testing.assert_close(value, mu_hat.mean(-1))
    (grad,) = torch.autograd.grad(value.sum(), beta)
    assert (grad == 0).all()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"width": torch.rand(4)}, "width must have shape"),
        ({"gamma": torch.rand(2)}, "gamma must have shape"),
        ({"mu_hat": torch.rand(3, 3)}, "mu_hat must have shape"),
        ({"probs": torch.rand(())}, "probs must have shape"),
    ],
)
def test_bad_input(change, match):
    inputs = {"probs": torch.rand(3), "mu_hat": torch.rand(3), "width": torch.rand(3), "gamma": torch.tensor(1.0)}
    with pytest.raises(ValueError, match=f"reward_and_gradient: {match}"):
        F.reward_and_gradient(**(inputs | change))


def test_closed_form_with_two_batch_dims():
    beta, mu_hat, width, gamma = _inputs((2, 3))
    probs = F.arm_probabilities(F.soft_ucb_index(mu_hat, width, beta), gamma)
    value, slope = F.reward_and_gradient(probs, mu_hat, width, gamma)
    for i in range(2):
        for j in range(3):
            one = F.reward_and_gradient(probs[i, j], mu_hat[i, j], width[i, j], gamma[i, j])
            torch.testing.assert_close((value[i, j], slope[i, j]), one, atol=1e-12, rtol=0)
