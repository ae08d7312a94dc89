"""Which policies decide on a single request in numpy, and what they refuse."""

import pytest
import torch

from torch_softucb import AutoSoftUCB, ScheduleBeta, SoftUCBPolicy, SummaryBeta
from torch_softucb.policies.fast_path import ArmEstimate
from torch_softucb.policies.lazy_decision import LazyDecision
from torch_softucb.policies.single_requests import check_found

ARMS = torch.eye(3)
NAN, INF = torch.full((2, 3), torch.nan), torch.full((3,), torch.inf)


@pytest.mark.parametrize(
    ("policy", "single"),
    [
        (SoftUCBPolicy(3), True),
        (SoftUCBPolicy(3, coldness="smooth"), True),
        (SoftUCBPolicy(3, learn_delta=True), False),
        (SoftUCBPolicy(3, beta_init=ScheduleBeta(10)), False),
        (AutoSoftUCB(3), True),
        (AutoSoftUCB(3, beta_init=SummaryBeta()), True),
        (AutoSoftUCB(3, beta_init=ScheduleBeta(10)), False),
        (AutoSoftUCB(3, learn_delta=True), False),
    ],
)
def test_a_number_or_a_summary_is_enough(policy, single):
    assert policy.has_single_beta == single
    with torch.no_grad():
        decision = policy(ARMS)
    assert isinstance(decision, LazyDecision) == single
    torch.testing.assert_close(decision.probs, policy(ARMS).probs.detach())  # with gradients, in torch


def test_the_smoothing_counts_only_if_the_coldness_is_smooth():
    assert SoftUCBPolicy(3, smoothing=0.2).kappa is None
    assert SoftUCBPolicy(3, smoothing=0.2, coldness="smooth").kappa == 0.2


@pytest.mark.parametrize(("features", "name"), [(NAN, "arms"), (INF, "context")])
def test_bad_features_are_named(features, name):
    found = ArmEstimate(torch.tensor([torch.nan, 0.0]).numpy(), torch.ones(2).numpy())
    with pytest.raises(ValueError, match=f"here: {name} must be finite"):
        check_found("here", features, found)
    check_found("here", features, ArmEstimate(torch.zeros(2).numpy(), torch.ones(2).numpy()))
