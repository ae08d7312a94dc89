"""Decisions, serving and learning of the head."""

import pytest
import torch
from torch import nn

from tests.recommend.cases import head, requests
from torch_softucb import AutoSoftUCB, EpsilonGreedy, LinTS, LinUCB, SoftUCBHead, SoftUCBPolicy

D = torch.double


def test_decisions_are_the_policys_on_the_encoders_features():
    ours = head(intercept=True)
    user, items = requests(6, 9)
    served = ours.serve(ours(user, items))
    ours.feedback(served.id, torch.randn(6, dtype=D))
    decision = ours(user, items)
    features = torch.cat((ours.encoder(user, items), torch.ones(6, 9, 1, dtype=D)), -1) / 2**0.5
    want = ours.policy(features)
    torch.testing.assert_close(decision.probs, want.probs)
    torch.testing.assert_close(served.x, features[torch.arange(6), served.arm])
    torch.testing.assert_close(served.propensity, torch.full((6,), 1 / 9, dtype=D))
    assert served.beta == ours.policy.beta


@pytest.mark.parametrize("policy", [SoftUCBPolicy(4), LinUCB(4), LinTS(4), EpsilonGreedy(4)], ids=lambda p: type(p).__name__)
def test_any_feature_policy_serves_and_learns(policy):
    ours = head(policy)
    user, items = requests(8, 5)
    served = ours.serve(ours(user, items), k=3)
    assert served.id.shape == served.arm.shape == (8, 3)
    assert (served.propensity is None) == isinstance(policy, LinTS)
    assert ours.feedback(served.id, torch.randn(8, 3)) == 24
    assert policy.state.num_observations == 24


def test_each_user_has_statistics_of_its_own():
    ours, user = head(users=20), torch.tensor([3, 7, 3])
    items = torch.arange(15).view(3, 5)
    served = ours.serve(ours(user, items, bandit=user))
    ours.feedback(served.id, torch.ones(3, dtype=D))
    num_observations = ours.policy.state.num_observations
    assert (num_observations[3], num_observations[7], num_observations.sum()) == (2, 1, 3)


def test_new_items_need_nothing_but_their_features():
    ours = SoftUCBHead(nn.Identity(), SoftUCBPolicy(3))
    for candidates in (2, 9, 40):
        served = ours.serve(ours(torch.randn(4, candidates, 3)))
        ours.feedback(served.id, torch.ones(4))
    assert ours(torch.randn(5, 3)).probs.shape == (5,)


def test_encoder_and_beta_learn_together():
    ours = head(SoftUCBPolicy(4, beta_init=0.3, dtype=D))
    user, items = requests(30, 6)
    ours.feedback(ours.serve(ours(user, items)).id, torch.randn(30, dtype=D))
    decision = ours(user, items)
    served = ours.serve(decision)
    for loss in (ours.expected_reward(decision).mean(), decision.log_prob(served.arm).mean()):
        parameters = [ours.encoder.users, ours.encoder.items, ours.policy.raw_beta]
        for gradient in torch.autograd.grad(loss, parameters, retain_graph=True):
            assert gradient.isfinite().all()
            assert gradient.abs().sum() > 0
    torch.testing.assert_close(ours.expected_reward(decision), (decision.probs * decision.mu_hat).sum(-1))
    greedy = head(LinUCB(4, dtype=D))
    decision = greedy(user, items)
    with pytest.raises(TypeError, match=r"expected_reward is not (there|available) for LinUCB"):
        greedy.expected_reward(decision)


def test_a_head_without_a_policy_finds_its_units():
    head = SoftUCBHead(torch.nn.Identity(), dim=3, intercept=True)
    assert isinstance(head.policy, AutoSoftUCB)
    assert head.policy.dim == 4
    served = head.serve(head(torch.eye(3)))
    assert head.feedback(served.id, torch.tensor(5.0)) == 1


@pytest.mark.parametrize(("given", "word"), [({}, "neither"), ({"policy": SoftUCBPolicy(3), "dim": 3}, "both")])
def test_a_head_takes_a_policy_or_a_dim(given, word):
    with pytest.raises(ValueError, match=f"expected either a policy or dim.*got {word}; as in SoftUCBHead"):
        SoftUCBHead(torch.nn.Identity(), **given)
