"""One parametrisation for every file of the contract: each policy, in both dtypes, with 0, 1 and 2 batch dimensions."""

import pytest
import torch

from tests.policies.cases import ALL, PRIOR, Case

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
    """Leave to the long job what differs only where another case does.

    These are float32 with two batch dimensions and, of policies with a prior, all but float64 with one batch dimension.
    """
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        kept = (given.get("dtype"), given.get("batch"))
        if kept == ("f32", "grid") or (given.get("name") in PRIOR and None not in kept and kept != ("f64", "batch")):
            item.add_marker(pytest.mark.long)
