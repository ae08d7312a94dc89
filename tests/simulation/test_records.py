"""What a rollout can record."""

import pytest
import torch

from tests.simulation.cases import DIM, problem_of
from torch_softucb import LinTS, LinUCB, SoftUCBPolicy, rollout, synthetic_problem
from torch_softucb.simulation.engine import Simulation
from torch_softucb.simulation.records import RECORDS, recorded_value


def test_records_have_their_meaning(seeded):
    problem = synthetic_problem(num_problems=3, num_arms=12, dim=4, dtype=torch.double, generator=seeded(0))
    names = ["num_suboptimal", "coverage", "entropy", "index", "probs", "mu_hat", "width"]
    got = rollout(
        SoftUCBPolicy(4, beta_init=0.5, dtype=torch.double), problem, horizon=20, generator=seeded(1), record=names
    ).records
    assert got["num_suboptimal"].equal((got["index"] < 0).sum(-1))
    inside = ((problem.means - got["mu_hat"]).abs() <= 0.5 * got["width"]).double().mean(-1)
    torch.testing.assert_close(got["coverage"], inside)
    torch.testing.assert_close(got["entropy"], torch.special.entr(got["probs"]).sum(-1))


def test_every_record_of_soft_ucb_has_its_shape(seeded):
    problem, policy = problem_of("two dims", seeded), SoftUCBPolicy(DIM, dtype=torch.double)
    got = rollout(policy, problem, horizon=7, record=RECORDS, record_every=3, generator=seeded(1)).records
    assert set(got) == set(RECORDS)
    for name, value in got.items():
        per_arm = name in ("probs", "index", "mu_hat", "width")
        assert value.shape == ((3, 2, 19, 12) if per_arm else (3, 2, 19)), name
    assert got["beta"].eq(1).all()


def test_a_recorded_value_is_a_copy(seeded):
    simulation = Simulation(LinUCB(DIM, dtype=torch.double), problem_of("own arms", seeded), generator=seeded(1))
    for played in simulation.play(1):
        kept = recorded_value("mu_hat", played, simulation.present_means, "LinUCB")
    assert kept.eq(0).all()
    assert not played.decision.mu_hat.eq(0).all()


@pytest.mark.parametrize(
    ("policy", "name"), [(LinUCB(DIM, dtype=torch.double), "gamma"), (LinTS(DIM, dtype=torch.double), "beta")]
)
def test_what_a_policy_does_not_have_cannot_be_recorded(policy, name, seeded):
    with pytest.raises(TypeError, match=f"record '{name}'.*{type(policy).__name__}"):
        rollout(policy, problem_of("own arms", seeded), horizon=2, record=[name])


def test_an_unknown_record_is_refused(seeded):
    with pytest.raises(ValueError, match=r"record must be one of .* got 'regret'"):
        rollout(LinUCB(DIM, dtype=torch.double), problem_of("own arms", seeded), horizon=2, record=["regret"])
