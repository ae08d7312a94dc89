"""The paper's panels in two units."""

import os

import pytest

from experiments.exam.panels import TUNED, UNITS, panels
from experiments.exam.settings import AUTO


@pytest.mark.skipif("SOFTUCB_DATA" not in os.environ, reason="SOFTUCB_DATA is not set: no Jester, no MovieLens")
def test_auto_has_the_same_regret_in_both_units():
    rows = panels(count=8, horizon=16)
    regret = {(row["panel"], row["unit"], row["policy"]): row["regret"] for row in rows}
    titles = {row["panel"] for row in rows}
    assert titles == {"MovieLens", "Jester", "MovieLens, intercept", "Jester, intercept"}
    first, second = UNITS
    for title in titles:
        assert regret[title, second, AUTO] == pytest.approx(regret[title, first, AUTO], rel=1e-3)
        assert regret[title, first, TUNED] > 0
