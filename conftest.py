"""For the tests and for the examples in docstrings."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("project", deadline=None, derandomize=True)
settings.load_profile("project")


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    doctest_namespace["torch"] = torch


@pytest.fixture
def seeded():
    return lambda seed: torch.Generator().manual_seed(seed)
