"""Synthetic problems: the distribution of Sec. 5, independence of the batch, drift."""

import math

import pytest
import torch

from torch_softucb import synthetic_problem


def test_sec_5(seeded):
    problem = synthetic_problem(num_problems=200, num_arms=50, dim=10, generator=seeded(0), dtype=torch.double)
    torch.testing.assert_close(problem.arms.norm(dim=-1), torch.ones(200, 50, dtype=torch.double))
    theta = torch.linalg.lstsq(problem.arms, problem.means.unsqueeze(-1)).solution.squeeze(-1)
    torch.testing.assert_close(theta.norm(dim=-1), torch.ones(200, dtype=torch.double))
    assert theta.mean(0).abs().max() < 5 / (10 * 200) ** 0.5  # a unit vector's entry has variance 1 / d
    assert problem.arms.mean((0, 1)).abs().max() < 5 / (10 * 200 * 50) ** 0.5


def test_a_problem_does_not_depend_on_the_others_in_the_batch(seeded):
    many = synthetic_problem(num_problems=9, generator=seeded(4))
    few = synthetic_problem(num_problems=3, generator=seeded(4))
    assert few.arms.equal(many.arms[:3])
    torch.testing.assert_close(few.means, many.means[:3])


def test_rewards_that_drift_rotate_in_a_plane(seeded):
    """theta stays a unit vector; a quarter turn later it is orthogonal to where it was; a full turn later it is back."""
    drift_rate = math.pi / 200
    problem = synthetic_problem(
        num_problems=5, num_arms=30, dim=4, drift_rate=drift_rate, dtype=torch.double, generator=seeded(0)
    )
    theta = [
        torch.linalg.lstsq(problem.arms, problem.means_at(t).unsqueeze(-1)).solution.squeeze(-1) for t in (0, 100, 37, 400)
    ]
    for found in theta:
        torch.testing.assert_close(found.norm(dim=-1), torch.ones(5, dtype=torch.double))
    torch.testing.assert_close((theta[0] * theta[1]).sum(-1), torch.zeros(5, dtype=torch.double), atol=1e-12, rtol=0)
    torch.testing.assert_close(
        (theta[0] * theta[2]).sum(-1), torch.full((5,), math.cos(37 * drift_rate), dtype=torch.double)
    )
    torch.testing.assert_close(theta[3], theta[0])
    still = synthetic_problem(num_problems=5, num_arms=30, dim=4, dtype=torch.double, generator=seeded(0))
    assert torch.equal(problem.means, still.means)
    assert torch.equal(still.means_at(9), still.means)


@pytest.mark.parametrize("drift_rate", [0.0, 0.1])
def test_a_part_equals_that_part_of_the_whole(drift_rate, seeded):
    sizes = {"num_arms": 4, "dim": 3, "drift_rate": drift_rate}
    whole = synthetic_problem(num_problems=7, generator=seeded(0), **sizes)[2:5]
    share = synthetic_problem(num_problems=3, first=2, generator=seeded(0), **sizes)
    for name in ("arms", "means", "ids", *(["rotated_means"] if drift_rate else [])):
        assert torch.equal(getattr(share, name), getattr(whole, name))
    with pytest.raises(ValueError, match="first must be at least 0"):
        synthetic_problem(first=-1)


def test_drift_needs_a_plane():
    with pytest.raises(ValueError, match="dim must be at least 2 for theta to rotate"):
        synthetic_problem(num_problems=5, dim=1, drift_rate=0.1)
