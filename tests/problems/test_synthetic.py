import math

import pytest
import torch

from torch_softucb import BanditProblem, synthetic_problem


def test_sec_5(seeded):
    problem = synthetic_problem(num_problems=200, num_arms=50, dim=10, generator=seeded(0), dtype=torch.double)
    torch.testing.assert_close(problem.arms.norm(dim=-1), torch.ones(200, 50, dtype=torch.double))
    theta = torch.linalg.lstsq(problem.arms, problem.means.unsqueeze(-1)).solution.squeeze(-1)
    torch.testing.assert_close(theta.norm(dim=-1), torch.ones(200, dtype=torch.double))
    assert theta.mean(0).abs().max() < 5 / (10 * 200) ** 0.5  # a unit vector's entry has variance 1 / d
    assert problem.arms.mean((0, 1)).abs().max() < 5 / (10 * 200 * 50) ** 0.5


def test_a_problem_does_not_depend_on_its_company(seeded):
    many = synthetic_problem(num_problems=9, generator=seeded(4))
    few = synthetic_problem(num_problems=3, generator=seeded(4))
    assert few.arms.equal(many.arms[:3])
    torch.testing.assert_close(few.means, many.means[:3])


def test_rows_keep_their_ids_and_repeats_get_new_ones(seeded):
    problem = synthetic_problem(num_problems=9, generator=seeded(4))
    part = problem[3:5]
    assert part.ids.tolist() == [3, 4]
    assert part.means.equal(problem.means[3:5])
    assert problem[2].batch_shape == ()
    again = problem[2].repeat(7)
    assert again.batch_shape == (7,)
    assert again.shared_arms
    assert again.ids.tolist() == list(range(7))
    assert problem.repeat(4).means.shape == (4, 9, 50)


def test_to_moves_everything(seeded):
    problem = synthetic_problem(num_problems=2, generator=seeded(0)).to(torch.double)
    assert problem.arms.dtype == problem.means.dtype == torch.double
    assert problem.ids.dtype == torch.int64


def test_rewards_that_drift_turn_in_a_plane(seeded):
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


def test_drift_survives_slices_copies_and_casts(seeded):
    problem = synthetic_problem(num_problems=5, num_arms=6, dim=3, drift_rate=0.1, generator=seeded(0))
    want = problem.means_at(7)
    torch.testing.assert_close(problem[2].means_at(7), want[2])
    torch.testing.assert_close(problem[1:4].means_at(7), want[1:4])
    torch.testing.assert_close(problem.repeat(3).means_at(7), want.expand(3, 5, 6))
    torch.testing.assert_close(problem.to(torch.double).means_at(7).float(), want)
    with pytest.raises(ValueError, match="rotated_means must have shape of means"):
        BanditProblem(problem.arms, problem.means, rotated_means=problem.means[0])


@pytest.mark.parametrize(
    ("drift_rate", "match"),
    [
        (float("nan"), "drift_rate must be in"),
        ("fast", "drift_rate must be a number"),
        (torch.ones(3), r"drift_rate must have shape \(\) or \(5,\)"),
        (torch.full((5,), float("inf")), "drift_rate must be finite"),
    ],
)
def test_a_turn_that_cannot_be_is_refused(drift_rate, match, seeded):
    problem = synthetic_problem(num_problems=5, num_arms=6, dim=3, generator=seeded(0))
    with pytest.raises((TypeError, ValueError), match=match):
        BanditProblem(problem.arms, problem.means, rotated_means=problem.means, drift_rate=drift_rate)
    with pytest.raises(ValueError, match="drift_rate must be 0 without rotated_means"):
        BanditProblem(problem.arms, problem.means, drift_rate=0.1)
    with pytest.raises(ValueError, match="dim must be at least 2 for theta to turn"):
        synthetic_problem(num_problems=5, dim=1, drift_rate=0.1)


@pytest.mark.parametrize("drift_rate", [0.0, 0.1])
def test_a_share_is_that_part_of_the_whole(drift_rate, seeded):
    kind = {"num_arms": 4, "dim": 3, "drift_rate": drift_rate}
    whole = synthetic_problem(num_problems=7, generator=seeded(0), **kind)[2:5]
    share = synthetic_problem(num_problems=3, first=2, generator=seeded(0), **kind)
    for name in ("arms", "means", "ids", *(["rotated_means"] if drift_rate else [])):
        assert torch.equal(getattr(share, name), getattr(whole, name))
    with pytest.raises(ValueError, match="first must be at least 0"):
        synthetic_problem(first=-1)
