"""The decision path under torch.export and torch.compile."""

import pytest
import torch
from torch import nn

from tests.recommend.cases import head, requests
from torch_softucb import GaussianPrior, SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import DecisionPath

D = torch.double


@pytest.mark.parametrize("users", [None, 20])
def test_export_with_any_number_of_requests_and_candidates(users):
    ours = head(users=users, intercept=True, normalise=True)
    user, items = requests(5, 7)
    bandit = {"bandit": user} if users else {}
    ours.feedback(ours.serve(ours(user, items, **bandit)).id, torch.randn(5, dtype=D))
    N, K = torch.export.Dim("N", min=1, max=4096), torch.export.Dim("K", min=1, max=4096)
    mask = torch.rand(5, 7) > 0.3
    mask[:, 0] = True
    shapes = {"inputs": ({0: N}, {0: N, 1: K}), "mask": {0: N, 1: K}} | ({"bandit": {0: N}} if users else {})
    program = torch.export.export(DecisionPath(ours), (user, items), {"mask": mask} | bandit, dynamic_shapes=shapes)
    for count, candidates in ((1, 1), (3, 2), (300, 40)):
        user, items = requests(count, candidates, seed=count)
        mask = torch.rand(count, candidates) > 0.3
        mask[:, 0] = True
        bandit = {"bandit": user} if users else {}
        got, want = program.module()(user, items, mask=mask, **bandit), ours(user, items, mask=mask, **bandit)
        for name, value in got.items():
            torch.testing.assert_close(value, getattr(want, name), atol=1e-12, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("users", [None, 20])
def test_compile_without_graph_breaks(users):
    ours = head(users=users, intercept=True)
    compiled = torch.compile(DecisionPath(ours), fullgraph=True, backend="aot_eager")
    for count, candidates in ((5, 7), (6, 4), (2, 9)):
        user, items = requests(count, candidates)
        bandit = {"bandit": user} if users else {}
        with torch.no_grad():
            got, want = compiled(user, items, **bandit)["probs"], ours(user, items, **bandit).probs
        torch.testing.assert_close(got, want, atol=1e-12, rtol=0)


def test_what_depends_on_open_decisions_is_not_exported():
    ours = head(narrow_pending=True)
    user, items = requests(5, 7)
    ours.serve(ours(user, items))
    with pytest.raises(Exception, match="narrow_pending depends on the open decisions and cannot be exported"):
        torch.export.export(DecisionPath(ours), (user, items))


@pytest.mark.parametrize("build", [SoftUCBPolicy, SoftUCBPolicy.auto], ids=["soft_ucb", "auto"])
def test_a_prior_is_part_of_the_exported_program(build):
    prior = GaussianPrior(torch.tensor([1.0, -2.0]), 0.3 * torch.eye(2), noise_std=0.5, offset=2.0)
    path = DecisionPath(SoftUCBHead(nn.Embedding(9, 2), build(2, prior=prior)))
    program = torch.export.export(path, (torch.zeros(3, 5, dtype=torch.long),))
    candidates = torch.arange(15).view(3, 5) % 9
    assert program.module()(candidates)["mu_hat"].equal(path(candidates)["mu_hat"])
