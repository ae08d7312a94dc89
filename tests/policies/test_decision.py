"""Decisions: sampling, slates, log-probabilities, requests."""

import dataclasses

import pytest
import torch

from tests.policies.cases import ALL, NUM_ARMS, build, random_numbers
from tests.statistics_checks import FALSE_ALARM, assert_frequencies, every_seed, frequency_p, frequency_power
from torch_softucb import Decision

DIM, K = 4, NUM_ARMS


@pytest.mark.parametrize("name", ALL)
def test_a_request_goes_along_with_its_decision(name):
    policy = build(name, DIM, dtype=torch.double)
    arms = torch.randn(K, DIM, dtype=torch.double)
    z = random_numbers(policy)
    for context in (torch.no_grad(), torch.enable_grad()):
        with context:
            decision = policy(arms)
        asked = decision.with_request(features=arms, bandit=None)
        assert asked.features is arms
        assert decision.features is None
        assert type(asked) is type(decision)
        assert asked.pick(z).equal(decision.pick(z))
        other = dataclasses.replace(asked, bandit=torch.tensor([1]))
        assert other.bandit.tolist() == [1]
        assert other.index.equal(decision.index)
        assert other.probs is None or other.probs.equal(decision.probs)


def _softmax(index, gamma, mask=None):
    logits = gamma.unsqueeze(-1) * index
    probs = torch.softmax(logits if mask is None else logits.masked_fill(~mask, -torch.inf), -1)
    return Decision(probs=probs, index=index, mu_hat=index, width=index.abs(), mask=mask, gamma=gamma)


def test_log_probs_are_those_of_probs_with_and_without_gamma(seeded):
    decision = _softmax(torch.randn(3, K, generator=seeded(0)).double(), torch.tensor([0.0, 1.0, 9.0]).double())
    torch.testing.assert_close(decision.log_probs.exp(), decision.probs)
    torch.testing.assert_close(dataclasses.replace(decision, gamma=None).log_probs, decision.log_probs)
    torch.testing.assert_close(decision.entropy(), -(decision.probs * decision.probs.log()).sum(-1))


@every_seed
def test_samples_have_the_probabilities_of_the_decision(seed):
    """20,000 draws by chi-square, false alarms 1e-6; probabilities that are off by three points are flagged."""
    probs = torch.tensor([0.0, 0.5, 0.3, 0.2])
    decision = Decision(probs=probs.expand(20_000, 4), index=probs.expand(20_000, 4), mu_hat=probs, width=probs)
    drawn = torch.bincount(decision.sample(torch.Generator().manual_seed(seed)), minlength=4).tolist()
    assert_frequencies(drawn, probs.tolist())
    assert frequency_p(drawn, [0.0, 0.53, 0.27, 0.2]) < FALSE_ALARM
    assert frequency_power([0.53, 0.27, 0.2], [0.5, 0.3, 0.2], 20_000) > 0.999


def test_slates_hold_different_allowed_arms_and_their_log_probabilities(seeded):
    mask = torch.tensor([True, False, True, True, True, False])
    decision = _softmax(torch.randn(50, K, generator=seeded(0)), torch.ones(50), mask)
    slate = decision.sample_topk(3, seeded(1))
    assert slate.arm.shape == (50, 3)
    assert (slate.arm.sort(-1).values.diff(dim=-1) > 0).all()
    assert mask[slate.arm].all()
    torch.testing.assert_close(slate.log_prob[:, 0], decision.log_prob(slate.arm[:, 0]))
    torch.testing.assert_close(slate.slate_log_prob, slate.log_prob.sum(-1))
    with pytest.raises(ValueError, match="k must be at most the number of allowed arms, 4 in row"):
        decision.sample_topk(5)


def test_a_decision_cannot_be_changed():
    decision = _softmax(torch.zeros(K), torch.tensor(1.0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.probs = torch.zeros(K)


def test_a_slate_may_be_one_arm_or_all_allowed_arms(seeded):
    mask = torch.tensor([True, False, True, True, True, False])
    for allowed, most in ((None, K), (mask, 4)):
        decision = _softmax(torch.randn(3, K, generator=seeded(0)), torch.ones(3), allowed)
        assert decision.sample_topk(1, seeded(1)).arm.shape == (3, 1)
        every = decision.sample_topk(most, seeded(1)).arm.sort(-1).values
        assert every.tolist() == [torch.arange(K)[slice(None) if allowed is None else mask].tolist()] * 3
        for wrong in (0, most + 1):
            with pytest.raises(ValueError, match=r"Decision\.sample_topk: k must be at"):
                decision.sample_topk(wrong)
