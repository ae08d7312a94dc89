"""Is learning worth it: equal budgets, problems apart, a page that says what the tables say."""

import pytest
import torch

from experiments import gradients as estimators
from experiments.worth import study as worth
from experiments.worth.report import report
from experiments.worth.settings import lin_ucb, play, settings
from torch_softucb.simulation.backends.compiled import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")


def no_bar(work, description=""):
    return work


def test_train_tune_and_test_share_no_problem():
    for setting in settings(real=False):
        drawn = [next(setting.games(split, 8, 24)).problem.means for split in ("tune", "test")]
        drawn.append(setting.lesson(0, 8, 24).problem.means)
        for i in range(3):
            for j in range(i):
                assert drawn[i].shape != drawn[j].shape or not torch.equal(drawn[i], drawn[j])


def test_grids_and_lessons_simulate_equally_many_rounds():
    budget = worth.FULL
    (setting,) = [s for s in settings(real=False) if s.title == "Synthetic d = 10"]
    small = worth.Budget(tune=16, points=3, horizon=24, trajectories=8)
    spent = small.points * play(lin_ucb(0.5), setting.games("tune", small.tune, small.horizon)).rounds
    assert spent == small.points * small.tune * small.horizon
    for lesson in worth.LESSONS.values():
        per_step = budget.trajectories * lesson.rollouts
        rounds = budget.steps(per_step) * per_step
        assert 0.95 * budget.points * budget.tune <= rounds <= budget.points * budget.tune


def test_the_grid_has_its_ends():
    values = worth.grid(0.03, 4.0, 40)
    assert len(values) == 40
    assert values[0] == pytest.approx(0.03)
    assert values[-1] == pytest.approx(4.0)


@pytest.mark.long
def test_the_whole_page(tmp_path, monkeypatch):
    import sys

    monkeypatch.syspath_prepend("scripts")
    monkeypatch.delenv("SOFTUCB_DATA", raising=False)
    sys.modules.pop("worth", None)
    script = __import__("worth")
    script.main(["all", "--quick", "--out", str(tmp_path)])
    page = (tmp_path / "WORTH.md").read_text()
    for setting in ("Synthetic d = 10", "Synthetic d = 20", "Mixture", "Drifting"):
        assert f"## {setting}\n" in page
    for part in ("Is the gradient right?", "How noisy is it?", "Where does it lead?", "target coverage"):
        assert part in page
    assert (tmp_path / "worth.png").stat().st_size > 10_000


def test_the_verdict_follows_the_table():
    """A biased row turns yes into no."""
    rows = [
        {
            "beta": beta,
            "coldness": coldness,
            "estimator": name,
            "mean": 1.0,
            "error": 0.1,
            "difference": 1.05,
            "difference_error": 0.1,
            "off": 0.4,
            "error_for_given_rounds": 1.0,
        }
        for beta in estimators.BETAS
        for coldness in ("smooth", "current")
        for name in ("trajectory, none", "trajectory, state", "paper (eta 0)", "common random numbers")
    ]
    tables = {"worth": [], "bias": rows, "starts": [], "coverage": []}
    assert "differences: **yes**" in report(tables, command="x", scale="y")
    rows[1]["off"] = -3.4
    assert "differences: **no**" in report(tables, command="x", scale="y")
