"""The report follows from the tables, and the published report from the published tables."""

import json
from pathlib import Path

import pytest

from experiments.paper.report import report
from experiments.tables import load

RESULTS = Path(__file__).parents[3] / "results"
NAMES = ("table1", "figure2", "beta_curve", "eta", "cost", "targets")


@pytest.fixture
def tables():
    return {name: load(RESULTS, name) for name in NAMES}


def test_the_published_report_is_that_of_the_published_tables(tables):
    about = json.loads((RESULTS / "table1.json").read_text())
    scale = f"{about['scale']['test']} test problems per panel, T = {about['scale']['horizon']}"
    assert report(tables, command=about["command"], scale=scale) == (RESULTS / "REPORT.md").read_text()


def test_a_beta_above_its_bound_changes_the_verdict(tables):
    claim = '"Learned beta is below its theoretical bound in all cases": '
    assert claim + "**holds**" in report(tables, command="x", scale="y")
    tables["table1"][0]["learned"] = 10.0
    assert claim + "**does not hold**" in report(tables, command="x", scale="y")


def test_without_movielens_the_targets_are_left_out(tables):
    assert "target film" in report(tables, command="x", scale="y")
    assert "target film" not in report(tables | {"targets": []}, command="x", scale="y")
