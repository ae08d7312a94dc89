"""One parametrisation for every file of the contract: each policy, in both dtypes, with 0, 1 and 2 batch dimensions."""

import pytest
import torch

from tests.policies.cases import ALL, Case

DTYPES = {"f32": torch.float32, "f64": torch.float64}
BATCHES = {"single": (), "batch": (3,), "grid": (2, 2)}


@pytest.fixture(params=ALL)
def name(request):
    return request.param


@pytest.fixture(params=DTYPES)
def dtype(request):
    return DTYPES[request.param]


@pytest.fixture(params=BATCHES)
def batch(request):
    return BATCHES[request.param]


@pytest.fixture
def case(name, dtype, batch):
    return Case(name, dtype, batch)
