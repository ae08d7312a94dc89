"""Decisions that can only be sampled."""

import pytest
import torch

from torch_softucb import LinTS
from torch_softucb.policies.decision import Estimate
from torch_softucb.policies.sampled import SampledDecision, sampled_decision


def _decision(mask=None, batch=()):
    """Index z: what is drawn is what is ranked."""
    zeros = torch.zeros(*batch, 4)
    count = torch.zeros(batch)
    estimate = Estimate(zeros, zeros + 1, count, count, lambda z: z, torch.eye(4), torch.eye(4), torch.zeros(*batch, 0))
    return sampled_decision("Mine", estimate, mask, lambda z: z, num_normals=4)


def test_it_plays_the_best_allowed_arm_of_the_draw():
    z = torch.tensor([3.0, 1.0, 4.0, 1.5])
    assert _decision().pick(z) == 2
    assert _decision(torch.tensor([True, True, False, True])).pick(z) == 0
    assert _decision().pick_topk(3, z).arm.tolist() == [2, 0, 3]
    assert _decision().pick_topk(3, z).log_prob is None
    assert _decision().pick_topk(3, z).slate_log_prob is None


def test_samples_take_the_numbers_of_the_generator(seeded):
    decision = _decision(batch=(5,))
    z = torch.randn(5, 4, generator=seeded(0))
    assert decision.sample(seeded(0)).equal(z.argmax(-1))
    assert decision.sample_topk(2, seeded(0)).arm.equal(z.topk(2).indices)


def test_it_has_no_probabilities_and_names_the_policy():
    decision = _decision()
    assert decision.probs is None
    for read in (lambda: decision.log_probs, decision.entropy, lambda: decision.log_prob(torch.tensor(0))):
        with pytest.raises(TypeError, match="Mine: arm probabilities have no closed form"):
            read()
    with pytest.raises(ValueError, match=r"Mine.sample_topk: k must be at most the number of arms, 4, got 5"):
        decision.sample_topk(5)


def test_what_a_draw_needs_must_be_given():
    with pytest.raises(TypeError, match="draw"):
        SampledDecision(probs=None, index=torch.zeros(2), mu_hat=torch.zeros(2), width=torch.ones(2))
    assert LinTS(3)(torch.eye(3)).num_normals == 3
