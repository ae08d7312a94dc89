import pytest

from experiments.trust.goal import GOALS, Result, Size, goal


def test_an_id_is_registered_once():
    goal("R99", claim="two\n   lines", method="")(lambda size: Result(True, ""))
    try:
        assert GOALS["R99"].claim == "two lines"
        with pytest.raises(ValueError, match="R99 is already registered"):
            goal("R99", claim="", method="")(lambda size: Result(True, ""))
    finally:
        del GOALS["R99"]


def test_sizes():
    assert Size().of(3, 1) == 3
    assert Size(quick=True).of(3, 1) == 1
