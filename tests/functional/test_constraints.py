"""Constraints on learned parameters: the values stay in range, and gradients can leave the boundary again."""

import pytest
import torch

from torch_softucb import functional as F

OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.3),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.3, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.3),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.3),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.3),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_d9_beta_stays_nonnegative_and_comes_back(name):
    """Pushed to -1 for 30 steps, then to 2 for 100: at 0 meanwhile, free again afterwards."""
    raw = torch.nn.Parameter(torch.tensor(0.5))
    optimiser = OPTIMISERS[name]([raw])
    seen = []
    for step in range(130):
        target = -1.0 if step < 30 else 2.0

        def loss(target=target):
            optimiser.zero_grad()
            value = (F.nonnegative(raw) - target).square()
            value.backward()
            return value

        optimiser.step(loss)
        seen.append(F.nonnegative(raw).item())
    assert min(seen) >= 0
    assert seen[29] == 0
    assert seen[-1] > 1


def test_d9_sgd_does_the_papers_step_exactly():
    raw = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.double))
    optimiser = torch.optim.SGD([raw], lr=0.1)
    (-F.nonnegative(raw) * 3.0).backward()  # g_hat = 3
    optimiser.step()
    assert F.nonnegative(raw).item() == 0.5 + 0.1 * 3.0


def test_bounded_keeps_values_and_lets_a_gradient_leave_either_end():
    raw = torch.tensor([-3.0, -1.0, 0.2, 1.0, 7.0], dtype=torch.double, requires_grad=True)
    value = F.bounded(raw, -1.0, 1.0)
    assert torch.equal(value, raw.detach().clamp(-1, 1))
    (rising,) = torch.autograd.grad(value, raw, -torch.ones(5, dtype=torch.double), retain_graph=True)
    assert rising.tolist() == [-1.0, -1.0, -1.0, -1.0, 0.0]  # descent raises: only what is beyond the upper end stays
    (falling,) = torch.autograd.grad(value, raw, torch.ones(5, dtype=torch.double))
    assert falling.tolist() == [0.0, 1.0, 1.0, 1.0, 1.0]


def test_nonnegative_gradient_is_what_autograd_passes_back(seeded):
    raw = torch.randn(2, 50, dtype=torch.double, generator=seeded(0)).requires_grad_()
    grad = torch.randn(2, 50, dtype=torch.double, generator=seeded(1))
    (got,) = torch.autograd.grad(F.nonnegative(raw), raw, grad)
    assert got.equal(F.nonnegative_gradient(raw.detach(), grad))


def test_without_a_graph_the_values_are_the_same(seeded):
    raw = torch.randn(50, generator=seeded(0)).requires_grad_()
    with torch.no_grad():
        assert F.nonnegative(raw).equal(raw.clamp(min=0))
        assert F.bounded(raw, -0.5, 0.5).equal(raw.clamp(-0.5, 0.5))
    assert not F.nonnegative(raw.detach()).requires_grad


def test_under_vmap():
    raw, grad = torch.tensor([0.5, -0.1, -0.1]), torch.tensor([3.0, 3.0, -3.0])
    slope = torch.func.vmap(torch.func.grad(lambda r, g: g * F.nonnegative(r)))(raw, grad)
    assert slope.tolist() == [3.0, 0.0, -3.0]
