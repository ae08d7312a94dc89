"""For the tests and for the examples in docstrings."""

import pytest
import torch
from hypothesis import settings

# the same examples in every run; `make long` runs ten times as many with --hypothesis-profile=long
settings.register_profile("short", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("long", parent=settings.get_profile("short"), max_examples=1000)
settings.load_profile("short")


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    doctest_namespace["torch"] = torch


@pytest.fixture
def seeded():
    return lambda seed: torch.Generator().manual_seed(seed)
