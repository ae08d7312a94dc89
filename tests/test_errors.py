"""Exceptions of the package: caught by name, by the package's base class, and by the built-in class they refine."""

import pickle

import pytest

import torch_softucb
from torch_softucb import errors

BUILT_IN = {
    "NumericalError": ArithmeticError,
    "DataError": ValueError,
    "JournalError": ValueError,
    "OpenDecisionsError": RuntimeError,
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_can_be_caught_three_ways(name):
    error = getattr(errors, name)
    for caught in (error, errors.SoftUCBError, BUILT_IN[name]):
        with pytest.raises(caught, match="what came"):
            raise error("f: what was expected, what came")


def test_they_travel_between_processes():
    for name in BUILT_IN:
        again = pickle.loads(pickle.dumps(getattr(errors, name)("text")))
        assert type(again) is getattr(errors, name)
        assert str(again) == "text"


def test_every_class_is_an_error_of_the_package_or_a_warning():
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert len(classes) == 9
    for each in classes:
        assert issubclass(each, errors.SoftUCBError | UserWarning)
        assert each.__doc__


def test_the_public_ones_are_these():
    assert torch_softucb.NumericalError is errors.NumericalError
