"""Control variates by loops; no trajectory influences its own."""

import pytest
import torch

from torch_softucb import functional as F

D = torch.double


@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 2, 5), (3, 2, 1), (3, 1, 5), (3, 1, 2), (3, 1, 1)])
def test_leave_one_out_by_loops(shape, seeded):
    values = torch.randn(shape, dtype=D, generator=seeded(0))
    got = F.leave_one_out(values)
    rounds, replicates, problems = shape
    for t in range(rounds):
        for r in range(replicates):
            for p in range(problems):
                if replicates > 1:
                    others = [values[t, o, p] for o in range(replicates) if o != r]
                else:
                    others = [values[t, r, o] for o in range(problems) if o != p]
                mean = sum(others) / len(others) if others else 0.0
                torch.testing.assert_close(got[t, r, p], values[t, r, p] - mean, atol=1e-12, rtol=0)


def test_the_fit_is_least_squares_of_the_other_half(seeded):
    g = seeded(0)
    state, target = torch.randn(3, 2, 40, 2, dtype=D, generator=g), torch.randn(3, 2, 40, dtype=D, generator=g)
    got = F.linear_prediction(state, target)
    for t in range(3):
        x, y = state[t, :, 1::2].reshape(-1, 2), target[t, :, 1::2].reshape(-1)
        weights = torch.linalg.lstsq(x, y.unsqueeze(-1)).solution
        torch.testing.assert_close(got[t, :, 0::2], (state[t, :, 0::2] @ weights).squeeze(-1), atol=2e-3, rtol=0)


def test_a_problem_does_not_influence_its_own_prediction(seeded):
    g = seeded(0)
    state, target = torch.randn(3, 2, 8, 2, dtype=D, generator=g), torch.randn(3, 2, 8, dtype=D, generator=g)
    before = F.linear_prediction(state, target)
    target[:, :, 4] += 100
    after = F.linear_prediction(state, target)
    assert torch.equal(before[:, :, 0::2], after[:, :, 0::2])
    assert not torch.equal(before[:, :, 1::2], after[:, :, 1::2])


def test_the_ridge_of_the_fit_is_a_thousandth_of_each_diagonal(seeded):
    state, target = torch.randn(2, 1, 8, 1, dtype=D, generator=seeded(0)), torch.randn(2, 1, 8, dtype=D, generator=seeded(1))
    got = F.linear_prediction(state, target)
    x, y = state[:, 0, 1::2, 0], target[:, 0, 1::2]
    weight = (x * y).sum(-1, keepdim=True) / (x.square().sum(-1, keepdim=True) * (1 + 1e-3 + 1e-9))
    torch.testing.assert_close(got[:, 0, 0::2], state[:, 0, 0::2, 0] * weight, atol=1e-12, rtol=1e-12)


def test_states_that_are_all_0_predict_0():
    assert F.linear_prediction(torch.zeros(2, 1, 4, 3, dtype=D), torch.ones(2, 1, 4, dtype=D)).equal(
        torch.zeros(2, 1, 4, dtype=D)
    )


@pytest.mark.parametrize(
    ("replicates", "problems", "features", "enough"),
    [(2, 4, 2, False), (4, 8, 4, True), (4, 6, 4, False), (2, 5, 1, True), (2, 3, 1, False), (3, 8, 3, True)],
)
def test_four_trajectories_per_feature_in_each_half_are_enough(replicates, problems, features, enough):
    assert F.enough_to_fit(torch.zeros(2, replicates, problems, features)) is enough


def test_enough_to_fit_needs_four_dimensions():
    with pytest.raises(ValueError, match="enough_to_fit: state must"):
        F.enough_to_fit(torch.zeros(2, 3, 4))
