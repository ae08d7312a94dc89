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


def pytest_collection_modifyitems(items):
    """Leave float32 with two batch dimensions to the long job: what differs there also differs in one of the other cases."""
    for item in items:
        case = getattr(item, "callspec", None)
        if case is not None and case.params.get("dtype") == "f32" and case.params.get("batch") == "grid":
            item.add_marker(pytest.mark.long)
