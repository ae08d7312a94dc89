"""What rounds and rollouts return."""

import torch

from tests.simulation.cases import DIM, problem_of
from torch_softucb import SoftUCBPolicy, Trajectory, rollout
from torch_softucb.simulation.trajectory import SCORES, GradientTerms, Round


def test_cumulative_regret_is_the_running_sum():
    regret = torch.tensor([[1.0, 0.0], [0.5, 2.0], [0.25, 1.0]])
    assert Trajectory(regret).cumulative_regret.equal(torch.tensor([[1.0, 0.0], [1.5, 2.0], [1.75, 3.0]]))


def test_a_rollout_returns_only_what_was_requested(seeded):
    policy, problem = SoftUCBPolicy(DIM, coldness="smooth", dtype=torch.double), problem_of("own arms", seeded)
    plain = rollout(policy, problem, horizon=4, generator=seeded(1))
    assert plain.gradient is None
    assert plain.situation is None
    assert not plain.records
    assert not plain.scores
    full = rollout(policy, problem, horizon=4, generator=seeded(1), gradient=True, scores=True, record=["arm"])
    assert tuple(full.scores) == SCORES
    assert all(value.shape == (4, 38) for value in full.scores.values())
    assert full.regret.equal(plain.regret)


def test_gradient_terms_are_means_over_the_rounds(seeded):
    """Departure D4; the scores hold the same terms round by round."""
    policy, problem = SoftUCBPolicy(DIM, coldness="smooth", dtype=torch.double), problem_of("own arms", seeded)
    got = rollout(policy, problem, horizon=9, generator=seeded(1), gradient=True, scores=True)
    torch.testing.assert_close(got.gradient.reward, got.scores["reward_slope"].mean(0))
    torch.testing.assert_close(got.gradient.penalty, got.scores["sum_width"].mean(0))


def test_every_field_is_documented():
    for record in (Round, GradientTerms, Trajectory):
        names = record._fields if hasattr(record, "_fields") else record.__dataclass_fields__
        assert all(f"        {name}: " in record.__doc__ for name in names)
