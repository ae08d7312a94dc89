"""Control variates by loops; no trajectory influences its own."""

import pytest
import torch

from torch_softucb import functional as F

D = torch.double


@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 1, 5), (3, 1, 1)])
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
