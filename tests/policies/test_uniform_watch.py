"""The warning about a policy whose decisions stay uniform."""

import warnings

import pytest
import torch

from torch_softucb import DisjointArms, SoftUCBPolicy
from torch_softucb.errors import UniformWarning
from torch_softucb.policies.uniform_watch import PATIENCE, is_uniform
from torch_softucb.recommend import SoftUCBHead


def _cents(policy, rounds, *, arms=5):
    """Play rewards worth a cent, which are far below a beta of 1."""
    generator = torch.Generator().manual_seed(0)
    features = torch.eye(arms)
    for _ in range(rounds):
        decision = policy(features)
        arm = decision.sample(generator=generator)
        policy.update(features[arm], 0.01 * (arm == 0).float())


def _repeat(decide, times):
    for _ in range(times):
        decide()


def test_a_beta_in_the_wrong_unit_warns_once():
    policy = SoftUCBPolicy(5, beta_init=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _cents(policy, PATIENCE - 1)
    with pytest.warns(UniformWarning, match=r"exploration bonus is up to .* differ by .* use SoftUCBPolicy.auto") as caught:
        _cents(policy, PATIENCE)
    found = [warning for warning in caught if warning.category is UniformWarning]
    assert len(found) == 1
    assert found[0].filename == __file__  # the line that called the policy
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _cents(policy, 3 * PATIENCE)


def test_a_policy_that_finds_the_unit_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _cents(SoftUCBPolicy.auto(5), 4 * PATIENCE)


def test_uniform_decisions_after_others_are_noticed():
    """The mean is forgotten after a while: the last decisions are uniform."""
    policy = SoftUCBPolicy(3, beta_init=0.1)
    policy.update(torch.eye(3).repeat(20, 1), torch.tensor([1.0, 0.0, 0.0]).repeat(20))
    assert not is_uniform(policy(torch.eye(3)))
    policy.reset()
    policy.update(torch.eye(3), torch.full((3,), 1e-4))
    with pytest.warns(UniformWarning):
        _repeat(lambda: policy(torch.eye(3)), 2 * PATIENCE + 1)


def test_a_policy_without_observations_is_not_warned_about():
    policy = SoftUCBPolicy(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _repeat(lambda: policy(torch.eye(3)), 3 * PATIENCE)
    policy.update(torch.eye(3), torch.full((3,), 1e-4))
    with pytest.warns(UniformWarning):
        _repeat(lambda: policy(torch.eye(3)), 2 * PATIENCE + 1)


@pytest.mark.parametrize("arms", [1, 2])
def test_two_candidates_or_fewer_do_not_count(arms):
    assert not is_uniform(SoftUCBPolicy(arms)(torch.eye(arms)))


def test_only_allowed_candidates_count():
    policy = SoftUCBPolicy(4)
    assert is_uniform(policy(torch.eye(4), mask=torch.tensor([True, True, True, False])))
    assert not is_uniform(policy(torch.eye(4), mask=torch.tensor([True, True, False, False])))


def test_every_request_of_a_batch_must_be_uniform():
    policy = SoftUCBPolicy(3, beta_init=0.1)
    policy.reset(batch_shape=(2,))
    assert is_uniform(policy(torch.eye(3)))
    policy.update(
        torch.eye(3).repeat(20, 1).unsqueeze(0),
        torch.tensor([1.0, 0.0, 0.0]).repeat(20).unsqueeze(0),
        bandit=torch.tensor([1]),
    )
    assert not is_uniform(policy(torch.eye(3)))


def test_heads_and_disjoint_arms_warn_too():
    head = SoftUCBHead(torch.nn.Identity(), SoftUCBPolicy(3))
    head.policy.update(torch.eye(3), torch.full((3,), 1e-4))
    with pytest.warns(UniformWarning):
        _repeat(lambda: head(torch.eye(3)), PATIENCE)
    arms = DisjointArms(SoftUCBPolicy(2), num_arms=3)
    arms.update(torch.ones(3, 2), torch.arange(3), torch.full((3,), 1e-4))
    with pytest.warns(UniformWarning):
        _repeat(lambda: arms(torch.ones(2)), PATIENCE)


def test_auto_says_what_to_check():
    policy = SoftUCBPolicy.auto(3)
    policy.update(torch.eye(3), torch.ones(3))
    with pytest.warns(UniformWarning, match="show no difference between the candidates; check that rewards reach"):
        _repeat(lambda: policy(torch.eye(3)), PATIENCE)
