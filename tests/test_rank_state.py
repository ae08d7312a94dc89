"""DistributedDataParallel around a model that contains a policy or a head, in two processes."""

import pytest
import torch
from torch import nn

from tests.processes import in_processes
from torch_softucb import GaussianPrior, SoftUCBHead, SoftUCBPolicy
from torch_softucb.rank_state import rank_state_names


def _model():
    head = SoftUCBHead(nn.Linear(3, 3), SoftUCBPolicy(3))
    return nn.ModuleDict({"deep": nn.Sequential(nn.Linear(2, 2), nn.ModuleList([head])), "policy": SoftUCBPolicy(2)})


def test_every_buffer_that_differs_between_ranks_is_named():
    names = rank_state_names(_model())
    buffers = {name for name, _ in _model().named_buffers()}
    assert names <= buffers
    words = ("statistics", "stream", "replicas", "pending")
    assert names == {name for name in buffers if any(word in name for word in words)}


INSIDE = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch_softucb import SoftUCBHead, SoftUCBPolicy

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = SoftUCBHead(nn.Linear(3, 3), SoftUCBPolicy(3))
        self.register_buffer("shared", torch.tensor(rank))
    def forward(self, x):
        return self.head(x)

model = DDP(Model())
head = model.module.head
head.reseed(rank, replica=rank)
for _ in range(10):
    served = head.serve(model(torch.randn(4, 3)))
    head.policy.update(torch.eye(3)[rank], torch.tensor(1.0))
model(torch.randn(4, 3))
result = {"V": head.policy.state.V, "open": head.open_decisions, "shared": model.module.shared}
"""


@pytest.mark.slow
def test_ddp_keeps_every_ranks_state_inside_a_model_and_shares_other_buffers():
    ranks = in_processes(INSIDE, 2)
    for rank, result in enumerate(ranks):
        want = torch.ones(3, dtype=torch.float64)
        want[rank] += 10
        assert torch.equal(result["V"], want.diag())
        assert len(result["open"]) == 10
        assert bool(((result["open"] >> 34) == rank).all())
    assert [int(result["shared"]) for result in ranks] == [0, 0]  # rank 0's, as always in DDP


def test_a_prior_is_named_where_there_is_one():
    model = nn.Sequential(SoftUCBPolicy(2, prior=GaussianPrior.ridge(2)), SoftUCBPolicy(2))
    kept = {"0.statistics", "0.prior_mean", "0.prior_covariance", "0.prior_numbers", "1.statistics"}
    assert rank_state_names(model) == kept
