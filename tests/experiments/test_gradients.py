"""The study of gradient estimators, at a size that takes seconds."""

import pytest

from experiments import gradients
from experiments.sizes import Budget, GradientSize
from experiments.worth.settings import settings
from experiments.worth.study import GRID_ENDS, grid
from torch_softucb.simulation.backends.compiled import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
SIZE = GradientSize(trajectories=32, chunk=16, horizon=12, given=96)


def no_bar(work, description):
    return work


def test_bias_compares_each_estimator_with_the_differences(monkeypatch):
    monkeypatch.setattr(gradients, "BETAS", (0.5,))
    rows = gradients.bias(SIZE, no_bar)
    for coldness in ("smooth", "current"):
        part = [row for row in rows if row["coldness"] == coldness]
        truth, error = gradients._differences(0.5, coldness, SIZE)
        assert all((row["difference"], row["difference_error"]) == (truth, error) for row in part)
        assert part[-1]["estimator"] == "common random numbers"
        assert (part[-1]["mean"], part[-1]["off"]) == (truth, 0.0)
        for row in part[:-1]:
            assert row["off"] == pytest.approx((row["mean"] - truth) / (row["error"] ** 2 + error**2) ** 0.5)


def test_errors_are_stated_for_the_same_number_of_rounds(monkeypatch):
    """32 trajectories of 12 rounds are 4 times 96; the differences simulate twice as many."""
    monkeypatch.setattr(gradients, "BETAS", (0.5,))
    for row in gradients.bias(SIZE, no_bar):
        times = 8 if row["estimator"] == "common random numbers" else 4
        assert row["error_for_given_rounds"] == pytest.approx(row["error"] * times**0.5)


def test_starts_learns_from_each_starting_point(monkeypatch):
    monkeypatch.setattr(gradients, "STARTS", (0.5, 2.0))
    budget = Budget(test=8, tune=8, points=3, horizon=16, trajectories=8)
    rows = gradients.starts(settings(real=False)[:1], budget, no_bar)
    assert [(row["start"], row["estimator"]) for row in rows] == [
        (start, name) for start in (0.5, 2.0) for name in ("trajectory", "differences")
    ]
    assert all(row["best_beta"] in grid(*GRID_ENDS, 3) for row in rows)
    assert all(row["beta"] > 0 and row["over_best_beta"] > 0 for row in rows)
