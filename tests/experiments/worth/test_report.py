"""The worth report follows from the tables, and the published report from the published tables."""

import json
import sys
from pathlib import Path

import pytest

from experiments.gradients import BETAS
from experiments.tables import load
from experiments.worth.report import report
from torch_softucb.simulation.backends.compiled import find_compiler

RESULTS = Path(__file__).parents[3] / "results"


def test_the_published_report_is_that_of_the_published_tables():
    tables = {name: load(RESULTS, name) for name in ("worth", "bias", "starts", "coverage")}
    budget = json.loads((RESULTS / "worth.json").read_text())["budget"]
    scale = ", ".join(f"{name} {value}" for name, value in budget.items())
    assert report(tables, command="make worth", scale=scale) == (RESULTS / "WORTH.md").read_text()


@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
@pytest.mark.long
def test_the_whole_page(tmp_path, monkeypatch):
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
        for beta in BETAS
        for coldness in ("smooth", "current")
        for name in ("trajectory, none", "trajectory, state", "paper (eta 0)", "common random numbers")
    ]
    tables = {"worth": [], "bias": rows, "starts": [], "coverage": []}
    assert "differences: **yes**" in report(tables, command="x", scale="y")
    rows[1]["off"] = -3.4
    assert "differences: **no**" in report(tables, command="x", scale="y")
