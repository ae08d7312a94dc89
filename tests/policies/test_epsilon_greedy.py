"""Epsilon-greedy by hand."""

import pytest
import torch

from torch_softucb import EpsilonGreedy


def test_the_rest_is_shared_by_all_allowed_arms():
    policy = EpsilonGreedy(3, epsilon=0.3)
    policy.update(torch.tensor([0.0, 1.0, 0.0]), torch.tensor(1.0))
    assert policy(torch.eye(3)).probs.tolist() == pytest.approx([0.1, 0.8, 0.1])
    mask = torch.tensor([True, False, True])  # the others tie
    assert policy(torch.eye(3), mask=mask).probs.tolist() == pytest.approx([0.5, 0.0, 0.5])


@pytest.mark.parametrize(("epsilon", "want"), [(0.0, [0.0, 1.0]), (1.0, [0.5, 0.5])])
def test_greedy_and_uniform_are_its_ends(epsilon, want):
    policy = EpsilonGreedy(2, epsilon=epsilon)
    policy.update(torch.tensor([0.0, 1.0]), torch.tensor(1.0))
    assert policy(torch.eye(2)).probs.tolist() == want


def test_the_native_rule_is_greedy_without_a_bonus():
    rule = EpsilonGreedy(2, epsilon=0.3).native_rule(torch.zeros(4))
    assert (rule.rule, float(rule.scale), rule.epsilon, rule.by_round) == ("greedy", 0.0, 0.3, False)
