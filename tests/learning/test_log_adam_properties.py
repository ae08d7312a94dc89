"""Laws of the optimiser in log space and of the dual variable."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import NUMBERS
from torch_softucb.learning.dual import Dual, OnlineDual
from torch_softucb.learning.log_adam import RelativeAdam

POSITIVE = st.floats(0.01, 50)


def _run(start, gradients, lr=0.1, steps=None, scale=1.0):
    beta = torch.nn.Parameter(torch.tensor(start, dtype=torch.double))
    optimizer = RelativeAdam([{"params": [beta], "positive": True}], lr=lr, steps=steps)
    path = [beta.item()]
    for gradient in gradients:
        beta.grad = (scale * gradient / beta.detach()).clone()  # a gradient in log beta
        optimizer.step()
        path.append(beta.item())
    return path


@given(POSITIVE, NUMBERS, st.sampled_from([1e-6, 1e-2, 1e3, 1e6]))
def test_steps_do_not_depend_on_the_unit_of_the_rewards(start, numbers, unit):
    gradients = numbers.normal(8)
    gradients = gradients + 0.1 * gradients.sign()  # far above eps = 1e-12, also times 1e-6
    assert _run(start, gradients, scale=unit) == pytest.approx(_run(start, gradients), rel=1e-5)


@given(POSITIVE, NUMBERS, st.floats(0.1, 10))
def test_steps_are_multiplicative(start, numbers, factor):
    """Twice the start is twice the path, and the values stay above 0."""
    gradients = numbers.normal(8)
    one, other = _run(start, gradients), _run(factor * start, gradients)
    assert other == pytest.approx([factor * value for value in one], rel=1e-9)
    assert min(one) > 0


@given(POSITIVE, NUMBERS, st.integers(1, 12))
def test_the_last_step_is_the_geometric_mean_of_the_second_half(start, numbers, steps):
    gradients = numbers.normal(steps)
    plain, averaged = _run(start, gradients), _run(start, gradients, steps=steps)
    tail = torch.tensor(plain[steps // 2 + 1 :], dtype=torch.double)
    assert averaged[-1] == pytest.approx(tail.log().mean().exp().item(), rel=1e-9)
    assert averaged[:-1] == pytest.approx(plain[:-1], rel=1e-12)


@given(st.floats(0.05, 0.99), st.floats(1e-4, 100), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_eta_forgets_where_it_started(target, start, coverages):
    """The distance of two etas in log space never grows."""
    one, other = (Dual(target, eta_init=eta, dtype=torch.double) for eta in (start, 0.002))
    before = abs((one.log_eta - other.log_eta).item())
    for coverage in coverages:
        for dual in (one, other):
            dual.weigh(torch.tensor(coverage, dtype=torch.double))
            dual.step()
        after = abs((one.log_eta - other.log_eta).item())
        assert after <= before + 1e-12
        before = after


@given(NUMBERS, st.integers(1, 6))
def test_trajectories_have_duals_of_their_own(numbers, count):
    beta = numbers.uniform(count) + 0.1
    whole, singles = OnlineDual(0.9, beta=beta), [OnlineDual(0.9, beta=b) for b in beta]
    for _ in range(3):
        mu_hat, width, reward = numbers.normal(count), numbers.uniform(count) + 0.1, numbers.normal(count)
        whole.observe(mu_hat, width, reward)
        slope = whole.climb(beta, -reward.abs(), width)
        assert (slope.abs() <= (beta + whole.kappa) * (1 + 1e-12)).all()
        for i, single in enumerate(singles):
            single.observe(mu_hat[i], width[i], reward[i])
            assert single.climb(beta[i], -reward[i].abs(), width[i]).item() == pytest.approx(slope[i].item(), abs=1e-12)
    assert whole.log_eta.tolist() == pytest.approx([single.log_eta.item() for single in singles], abs=1e-12)
