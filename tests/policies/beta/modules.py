"""Beta modules and problems that the tests of beta share."""

import pytest
import torch

from torch_softucb import ScheduleBeta, SegmentBeta, SituationBeta, synthetic_problem
from torch_softucb.simulation.backends.compiled import find_compiler

D = torch.double
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")


def bent(module, seeded):
    """A module that says something else in every situation."""
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=seeded(i)))
    return module


MODULES = {
    "segment": lambda seeded: bent(SegmentBeta(torch.arange(20) % 3, init=0.6), seeded),
    "schedule": lambda seeded: ScheduleBeta(60, init=torch.tensor([1.0, 0.3, 0.5])),
    "situation": lambda seeded: bent(SituationBeta(horizon=60, init=0.7), seeded),
}


def problem_of(seeded, *, masked=False, drift_rate=0.0, count=20):
    problem = synthetic_problem(num_problems=count, num_arms=9, dim=4, drift_rate=drift_rate, generator=seeded(0), dtype=D)
    if not masked:
        return problem
    mask = torch.rand(count, 9, generator=seeded(1)) > 0.4
    mask[:, 2] = True
    return type(problem)(problem.arms, problem.means, 0.5, mask)
