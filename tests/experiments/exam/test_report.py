"""Ratios to the best beta in hindsight, and the tables of the report."""

import pytest

from experiments.exam.report import geometric_mean, ratios, report
from experiments.exam.settings import AUTO, GRID, lin_ucb


def _rows():
    rows = []
    for name, best, auto in (("a", 100, 90), ("b", 50, 60)):
        own = {AUTO: auto, **{lin_ucb(beta): best + 10 * i for i, beta in enumerate(GRID)}}
        for policy, count in own.items():
            rows += [{"set": name, "rounds": 500, "policy": policy, "shuffle": s, "mistakes": count + s} for s in (-1, 1)]
    return rows


def test_ratios_are_to_the_best_beta_of_each_set():
    found = ratios(_rows(), 500)
    assert list(found) == [AUTO]
    assert found[AUTO] == pytest.approx({"a": 0.9, "b": 1.2})
    assert geometric_mean([0.9, 1.2]) == pytest.approx((0.9 * 1.2) ** 0.5)


def test_the_report_shows_all_policies_and_units():
    units = [{"set": "a", "unit": unit, "policy": AUTO, "mistakes": 90.0} for unit in ("0 or 1", "stars")]
    text = report(_rows(), units, command="make exam")
    assert "## At most 500 rounds" in text
    assert f"| **{AUTO}** | 90 | 60 | 1.039 | 1.200 |" in text
    assert "| a | auto | 90 | 90 |" in text


def test_the_other_parts_have_tables():
    vowpal = [
        {
            "set": "a",
            "rounds": 500,
            "policy": f"Vowpal Wabbit, {option}",
            "shuffle": 0,
            "mistakes": count,
            "microseconds": 70.0,
        }
        for option, count in (("bag 5", 120), ("greedy", 130))
    ]
    rows = [{**row, "microseconds": 200.0} for row in _rows()]
    single = [{"set": "a", "rounds": 500, "mistakes": 90, "microseconds": 140.0}]
    panels = [{"panel": "Jester", "unit": "stars", "policy": AUTO, "regret": 30.0}]
    tuned = [
        {"setting": "d", "unit": unit, "baseline": "LinUCB at 0.5", "regret": 9.0, "ratio": 0.9, "low": 0.8, "high": 1.0}
        for unit in ("as there", "cents")
    ]
    published = [{"policy": "D3RB (published)", "dim": 5, "regret": 94.0, "error": 0.0}]
    text = report(
        rows, [], command="make exam", vowpal=vowpal, single=single, panels=panels, tuned=tuned, published=published
    )
    assert "| a | 90 | 120 | bag 5 | 140 | 70 | 2.0 |" in text
    assert "| auto | 30.0 |" in text
    assert "geometric mean 0.900, worst 0.900" in text
    assert "| D3RB (published) | 94.0 |" in text
