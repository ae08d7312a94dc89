"""Learning and grid search of the worth study have equal budgets."""

import pytest

from experiments.sizes import FULL, Budget
from experiments.worth.settings import settings
from experiments.worth.study import BASELINES, BEST_FIXED, LESSONS, PRETRAINED, best_rows, grid, worth
from torch_softucb.simulation.backends.compiled import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")


def no_bar(work, description=""):
    return work


def test_grids_and_lessons_simulate_equally_many_rounds():
    budget = FULL.worth
    (setting,) = [s for s in settings(real=False) if s.title == "Synthetic d = 10"]
    small = Budget(tune=16, points=3, horizon=24, trajectories=8)
    episodes = setting.episodes("tune", small.tune, small.horizon)
    spent = small.points * sum(episode.horizon * episode.problem.batch_shape.numel() for episode in episodes)
    assert spent == small.points * small.tune * small.horizon
    for lesson in LESSONS.values():
        per_step = budget.trajectories * lesson.rollouts
        rounds = budget.steps(per_step) * per_step
        assert 0.95 * budget.points * budget.tune <= rounds <= budget.points * budget.tune


def test_the_grid_has_its_ends():
    values = grid(0.03, 4.0, 40)
    assert len(values) == 40
    assert values[0] == pytest.approx(0.03)
    assert values[-1] == pytest.approx(4.0)


def test_every_policy_has_a_row_and_the_best_baseline_is_the_reference():
    setting = settings(real=False)[0]
    rows, curves = worth(setting, Budget(test=8, tune=8, points=2, horizon=12, trajectories=8), no_bar)
    names = [BEST_FIXED, *BASELINES, *(f"SoftUCB, {lesson}" for lesson in [*LESSONS, PRETRAINED])]
    assert [row["policy"] for row in rows] == names
    by_name = {row["policy"]: row for row in rows}
    reference = min(BASELINES, key=lambda name: by_name[name]["regret"])
    assert all(row["baseline"] == reference for row in rows)
    assert (by_name[reference]["ratio"], by_name[BEST_FIXED]["over_best_beta"]) == (1.0, 1.0)
    assert len(curves) == 2 * (1 + len(BASELINES))


def test_best_rows_sorts_one_setting_by_regret():
    rows = [{"setting": s, "regret": r} for s, r in (("A", 3.0), ("B", 1.0), ("A", 2.0))]
    assert [row["regret"] for row in best_rows(rows, "A")] == [2.0, 3.0]
