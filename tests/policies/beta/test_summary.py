"""The network over a summary of the data: constant before training, horizons, files, only where there is a summary."""

import pytest
import torch

from torch_softucb import AutoSoftUCB, SoftUCBPolicy, SummaryBeta


def _situation(*batch):
    g = torch.Generator().manual_seed(0)
    values = torch.rand(*batch, 10, generator=g)
    return values * torch.tensor([100.0, 1, 1, 2, 3, 1, 1, 4, 3, 99]) + torch.tensor([0.0, 1, 0, -1, 0, 0, 0, 0, 0, 0])


def test_before_training_it_is_constant():
    assert SummaryBeta(init=1.7)(_situation(4, 3)).allclose(torch.tensor(1.7))


def test_horizons_share_parameters():
    module = SummaryBeta(horizon=100)
    other = module.for_horizon(None)
    assert other.horizon is None
    assert other.linear.weight is module.linear.weight
    assert bool((module(_situation(5)) < other(_situation(5))).all())


def test_beta_falls_with_the_rounds_that_are_left():
    module, situation = SummaryBeta(horizon=100, init=2.0, decay=0.5), _situation(5)
    for t, share in ((0, 1.0), (75, 0.25), (100, 1 / 101), (1000, 1 / 101)):
        situation[:, -1] = t
        torch.testing.assert_close(module(situation), torch.full((5,), 2.0 * share**0.5))
        assert module.single(situation[0].numpy()) == pytest.approx(2.0 * share**0.5)
    situation[:, -1] = 30
    rounds = torch.tensor([30.0, 31.0, 40.0])
    along = module.over_rounds(module(situation), rounds)
    torch.testing.assert_close(along, (2.0 * (1 - rounds / 100).sqrt()).unsqueeze(-1).expand(3, 5))
    assert module.for_horizon(None).over_rounds(torch.ones(5), rounds).shape == (1, 5)


def test_a_file_is_read_as_it_was_written(tmp_path):
    module = SummaryBeta(horizon=100, init=1.3)
    with torch.no_grad():
        module.linear.weight.normal_()
    module.save(tmp_path / "network", delta="0.9")
    other, about = SummaryBeta.load(tmp_path / "network", horizon=100)
    assert other(_situation(3)).equal(module(_situation(3)))
    assert about == {"delta": "0.9"}
    with pytest.raises(ValueError, match="not a safetensors file"):
        SummaryBeta.load(__file__)


def test_a_policy_without_scales_has_no_summary():
    with pytest.raises(ValueError, match="the policy must estimate its scales"):
        SoftUCBPolicy(2, beta_init=SummaryBeta())(torch.eye(2))


def test_gradients_reach_the_network():
    policy = AutoSoftUCB(2, beta_init=SummaryBeta(), delta=0.9)
    policy.update(torch.randn(5, 2), torch.randn(5))
    decision = policy(torch.eye(2))
    (decision.probs * torch.tensor([1.0, 0.0])).sum().backward()
    assert policy.beta_module.linear.bias.grad.abs() > 0
