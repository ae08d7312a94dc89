"""Stated probabilities are the observed frequencies: 50,000 decisions each, by chi-square; false alarms 1e-6."""

import itertools

import pytest
import torch
from torch import nn

from tests.statistics_checks import FALSE_ALARM, assert_frequencies, every_seed, frequency_p
from torch_softucb import EpsilonGreedy, SoftUCBHead, SoftUCBPolicy
from torch_softucb.functional import slate_log_prob
from torch_softucb.recommend.serving import draw_items, shown_features

MASKS = [[True] * 5, [True, False, True, True, True], [False, True, True, False, True]]


COUNT = 50_000


def _head(policy, seed):
    g = torch.Generator().manual_seed(0)
    arms = torch.nn.functional.normalize(torch.randn(5, 3, generator=g), dim=-1)
    policy.update(arms, torch.tensor([1.0, 0.2, 0.5, -0.5, 0.1]))
    return SoftUCBHead(nn.Identity(), policy, seed=seed), arms


@every_seed
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    "policy",
    [lambda: SoftUCBPolicy(3, beta_init=0.2), lambda: SoftUCBPolicy(3, coldness="smooth"), lambda: EpsilonGreedy(3)],
)
def test_single_decisions(policy, mask, seed):
    head, arms = _head(policy(), seed)
    with torch.no_grad():
        decision = head(arms.expand(COUNT, 5, 3), mask=torch.tensor(mask))
        served = head.serve(decision)
    assert_frequencies(torch.bincount(served.arm, minlength=5).tolist(), decision.probs[0].tolist())
    assert served.propensity.equal(decision.probs.gather(-1, served.arm.unsqueeze(-1)).squeeze(-1))


@every_seed
@pytest.mark.parametrize("mask", MASKS)
def test_slates_of_three(mask, seed):
    """The frequency of each slate is the product of its conditional probabilities."""
    head, arms = _head(SoftUCBPolicy(3, beta_init=0.2), seed)
    mask = torch.tensor(mask)
    with torch.no_grad():
        decision = head(arms.expand(COUNT, 5, 3), mask=mask)
        served = head.serve(decision, k=3)
    slates = list(itertools.permutations(mask.nonzero().squeeze(-1).tolist(), 3))
    code = served.arm @ torch.tensor([25, 5, 1])
    observed = [int((code == 25 * a + 5 * b + c).sum()) for a, b, c in slates]
    assert sum(observed) == COUNT
    log_probs = decision.log_probs[0].double()
    stated = [float(slate_log_prob(log_probs, torch.tensor(slate)).sum().exp()) for slate in slates]
    assert_frequencies(observed, stated)
    seen = [slate for slate, count in zip(slates, observed, strict=True) if count]
    for slate in seen:
        row = int((code == 25 * slate[0] + 5 * slate[1] + slate[2]).nonzero()[0])
        want = slate_log_prob(log_probs, torch.tensor(slate)).exp()
        torch.testing.assert_close(served.propensity[row].double(), want, atol=1e-5, rtol=1e-4)


def test_items_drawn_with_other_probabilities_are_flagged():
    """Power: propensities that move four points from the most likely item to the others are found in all of 10 seeds."""
    for seed in range(10):
        head, arms = _head(SoftUCBPolicy(3, beta_init=0.2, coldness="smooth"), seed)
        with torch.no_grad():
            decision = head(arms.expand(COUNT, 5, 3))
            served = head.serve(decision)
        stated = 0.96 * decision.probs[0].double() + 0.04 / 5
        assert frequency_p(torch.bincount(served.arm, minlength=5).tolist(), stated.tolist()) < FALSE_ALARM


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("shared", [True, False])
def test_features_of_the_items_that_were_drawn(batch, shared):
    features = torch.arange(30.0).view(3, 5, 2)
    features = features[0] if shared or not batch else features
    for arm in (torch.tensor([4, 0, 2])[: len(batch) * 3], torch.tensor([[4, 1], [0, 3], [2, 2]])):
        arm = arm if batch else (torch.tensor(4) if arm.dim() == 1 else arm[0])
        got = shown_features(features, arm, torch.Size(batch))
        rows = features.expand(*batch, 5, 2)
        want = torch.stack([rows[n][arm[n]] for n in range(3)]) if batch else rows[arm]
        assert got.equal(want)


def test_the_same_id_draws_the_same_item_whatever_its_batch():
    policy = SoftUCBPolicy(3, dtype=torch.double)
    policy.update(torch.eye(3, dtype=torch.double), torch.tensor([1.0, 0.5, 0.0], dtype=torch.double))
    decision = policy(torch.randn(50, 4, 3, dtype=torch.double, generator=torch.Generator().manual_seed(0)))
    one = policy(torch.randn(50, 4, 3, dtype=torch.double, generator=torch.Generator().manual_seed(0))[7])
    key, ids = torch.tensor(12345), torch.arange(100, 150)
    for k in (None, 2):
        arm, propensity = draw_items(decision, key, ids, k=k, num_normals=0)
        alone, its = draw_items(one, key, ids[7], k=k, num_normals=0)
        assert alone.equal(arm[7])
        torch.testing.assert_close(its, propensity[7], rtol=0, atol=1e-12)
        other, _ = draw_items(decision, key + 1, ids, k=k, num_normals=0)
        assert not other.equal(arm)
