"""A goal that is not met, crashes or prints nothing is reported, and the exit status says so."""

import pytest

from experiments.trust import runner
from experiments.trust.goal import GOALS, Goal, Result, Size
from experiments.trust.report import report, table
from experiments.trust.runner import Outcome, load_goals, measure_all


def test_every_goal_is_registered_with_a_claim_and_a_method():
    goals = load_goals()
    assert [goal.id for goal in goals] == [f"R{i}" for i in range(1, 24)]
    assert all(len(goal.claim) > 40 and len(goal.method) > 40 for goal in goals)


@pytest.mark.parametrize(
    ("out", "met", "measured"),
    [
        ('progress\n{"met": true, "measured": "1 of 1"}', True, "1 of 1"),
        ("", False, r"the measurement failed (exit status -11): last words"),
        ("[1]", False, r"the measurement failed (exit status -11): last words"),
    ],
)
def test_a_crash_is_a_goal_that_is_not_met(out, met, measured):
    assert runner._parsed(out, "first\nlast words", -11) == Result(met, measured)


def test_goals_that_measure_time_run_last_and_the_rest_goes_on(monkeypatch):
    fake = {id: Goal(id, "claim", "method", lambda size: Result(True, ""), alone=id == "R1") for id in ("R1", "R2", "R3")}
    monkeypatch.setattr(runner, "GOALS", fake)
    monkeypatch.setattr(runner, "measure", lambda id, size: Outcome(fake[id], Result(id != "R2", id), 1.0))
    seen = []
    outcomes = measure_all(["R1", "R2", "R3"], Size(), report=lambda outcome: seen.append(outcome.goal.id))
    assert seen[-1] == "R1"
    assert [outcome.result.met for outcome in outcomes] == [True, False, True]


@pytest.mark.slow
def test_one_goal_in_a_new_process():
    load_goals()
    outcome = runner.measure("R13", Size(quick=True))
    assert outcome.result.met, outcome.result
    assert "coverage" in outcome.result.measured


def test_the_report_names_what_is_not_met():
    load_goals()
    outcomes = [Outcome(GOALS["R1"], Result(True, "a | b"), 2.0), Outcome(GOALS["R4"], Result(False, "none"), 1.0)]
    assert "| yes |" in table(outcomes)
    assert "a \\| b" in table(outcomes)
    text = report(outcomes, command="make trust", size=Size(seed=3))
    assert "1 of 2 are kept" in text
    assert "**no**" in text
    assert "seed 3" in text


def test_outcomes_are_read_as_they_were_written_and_later_runs_are_named(tmp_path):
    load_goals()
    outcomes = [
        Outcome(GOALS["R1"], Result(True, "a"), 2.0, "2026-01-01 10:00"),
        Outcome(GOALS["R4"], Result(False, "b"), 1.0, "2026-01-01 11:00"),
    ]
    runner.save_outcomes(tmp_path / "trust.json", outcomes)
    assert runner.load_outcomes(tmp_path / "trust.json") == outcomes
    assert runner.load_outcomes(tmp_path / "none.json") == []
    assert "R4 measured again after the rest" in report(outcomes, command="make trust", size=Size())
