"""Studies of the paper's experiments, at sizes that take seconds."""

import pytest
import torch

from experiments.paper import studies
from experiments.paper.settings import GRIDS, PANELS
from experiments.sizes import QUICK


def no_bar(work, description):
    return work


def test_slope_is_the_exponent_of_a_power_law():
    curve = 3.0 * torch.arange(1, 101, dtype=torch.float64) ** 0.5
    assert studies._slope(curve) == pytest.approx(0.5)


def test_curves_end_at_the_last_round():
    assert studies._points(1024)[-1] == 1023
    assert len(studies._points(1024)) == 64
    assert studies._points(4, count=64) == [0, 1, 2, 3]


def test_tuning_takes_the_value_with_the_lowest_regret():
    best, rows = studies.tune("LinUCB", PANELS[0], QUICK.paper)
    assert [row["value"] for row in rows] == GRIDS["LinUCB"][1]
    assert best == min(rows, key=lambda row: row["regret"])["value"]


def test_figure_1_has_both_algorithms():
    rows = studies.figure_1(QUICK.paper, no_bar)
    assert {row["algorithm"] for row in rows} == {"offline", "online"}
    assert all(row["beta_low"] <= row["beta_high"] for row in rows)


def test_the_beta_curve_marks_the_learned_beta(monkeypatch):
    monkeypatch.setattr(studies, "BETA_CURVE", [0.2, 0.8])
    rows = studies.beta_curve(PANELS[:1], QUICK.paper, no_bar)
    assert [(row["policy"], row["learned"]) for row in rows] == [
        *[("SoftUCB, fixed beta", False)] * 2,
        *[("LinUCB", False)] * 2,
        ("SoftUCB, fixed beta", True),
    ]
