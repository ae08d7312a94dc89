"""Features of the arms in the layouts of a round."""

import pytest
import torch

from tests.simulation.cases import DIM, NUM_ARMS, problem_of
from torch_softucb.simulation.arm_features import ArmFeatures, Workspace

SHAPES = ["own arms", "shared arms", "single", "two dims"]


@pytest.mark.parametrize("shape", SHAPES)
def test_products_norms_and_rows_are_those_of_the_given_arms(shape, seeded):
    problem = problem_of(shape, seeded)
    features, batch = ArmFeatures(problem), problem.batch_shape
    arms = problem.arms.expand(*batch, NUM_ARMS, DIM)
    u = torch.randn(DIM, *batch, dtype=torch.double, generator=seeded(5))
    want = (arms @ u.movedim(0, -1).unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(features.project(u).movedim(0, -1), want)
    torch.testing.assert_close(features.norm_sq.expand(-1, *batch).movedim(0, -1), arms.square().sum(-1))
    arm = torch.randint(0, NUM_ARMS, batch, generator=seeded(6))
    rows = arms.gather(-2, arm[..., None, None].expand(*batch, 1, DIM)).squeeze(-2)
    assert features.gather(arm).movedim(0, -1).equal(rows)


def test_the_batch_is_innermost(seeded):
    layout = ArmFeatures(problem_of("two dims", seeded)).layout
    assert layout.shape == (DIM, NUM_ARMS, 2, 19)
    assert layout.is_contiguous()


def test_products_of_one_shape_share_their_output():
    space, a, b = Workspace(), torch.ones(2, 3), torch.full((2, 3), 2.0)
    first = space.multiply(a, b)
    assert first.equal(torch.full((2, 3), 2.0))
    assert space.multiply(b, b).data_ptr() == first.data_ptr()
    assert first.eq(4).all()
    assert space.multiply(a[:1], b[:1]).data_ptr() != first.data_ptr()
