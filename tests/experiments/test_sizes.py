"""Sizes of the studies."""

from dataclasses import asdict

from experiments.sizes import FULL, QUICK, Budget


def test_steps_cost_as_many_rounds_as_the_grid():
    budget = Budget(tune=100, points=40, trajectories=50)
    assert budget.steps(50) * 50 == 40 * 100
    assert Budget(tune=1, points=2).steps(1000) == 1


def test_quick_is_smaller_in_every_study():
    for study, full in asdict(FULL).items():
        quick = asdict(QUICK)[study]
        assert all(quick[key] <= full[key] for key in quick if full[key] is not None)
        assert quick != full
