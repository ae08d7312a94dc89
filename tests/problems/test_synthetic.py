import torch

from torch_softucb import synthetic_problem


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
