"""Small problems for the tests of the estimators."""

import torch

from torch_softucb import BanditProblem, synthetic_problem

D = torch.double


def small_problem(count, seeded, *, masked=False, dtype=D, arms=7, dim=3):
    problem = synthetic_problem(num_problems=count, num_arms=arms, dim=dim, dtype=dtype, generator=seeded(0))
    if not masked:
        return problem
    mask = torch.rand(count, arms, generator=seeded(1)) > 0.3
    mask[:, 1] = True
    return BanditProblem(problem.arms, problem.means, 0.5, mask)
