"""Stated probabilities are the observed frequencies: 200,000 decisions each, by chi-square."""

import itertools

import pytest
import torch
from scipy.stats import chisquare
from torch import nn

from torch_softucb import EpsilonGreedy, SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend.serving import draw_items, shown_features

MASKS = [[True] * 5, [True, False, True, True, True], [False, True, True, False, True]]


def _head(policy, seeded):
    g = seeded(0)
    arms = torch.nn.functional.normalize(torch.randn(5, 3, generator=g), dim=-1)
    policy.update(arms, torch.tensor([1.0, 0.2, 0.5, -0.5, 0.1]))
    return SoftUCBHead(nn.Identity(), policy, seed=3), arms


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    "policy",
    [lambda: SoftUCBPolicy(3, beta_init=0.2), lambda: SoftUCBPolicy(3, coldness="smooth"), lambda: EpsilonGreedy(3)],
)
def test_single_decisions(policy, mask, seeded):
    head, arms = _head(policy(), seeded)
    mask = torch.tensor(mask)
    with torch.no_grad():
        decision = head(arms.expand(200_000, 5, 3), mask=mask)
        served = head.serve(decision)
    observed = torch.bincount(served.arm, minlength=5)
    assert (observed[~mask] == 0).all()
    stated = decision.probs[0].double()
    p = chisquare(observed[mask], 200_000 * stated[mask] / stated[mask].sum()).pvalue
    print(f"p = {p:.3f}")
    assert p > 0.001
    assert served.propensity.equal(decision.probs.gather(-1, served.arm.unsqueeze(-1)).squeeze(-1))


@pytest.mark.parametrize("mask", MASKS)
def test_slates_of_three(mask, seeded):
    head, arms = _head(SoftUCBPolicy(3, beta_init=0.2), seeded)
    mask = torch.tensor(mask)
    with torch.no_grad():
        served = head.serve(head(arms.expand(200_000, 5, 3), mask=mask), k=3)
    code = served.arm @ torch.tensor([25, 5, 1])
    stated, observed = [], []
    for slate in itertools.permutations(mask.nonzero().squeeze(-1).tolist(), 3):
        rows = code == slate[0] * 25 + slate[1] * 5 + slate[2]
        observed.append(int(rows.sum()))
        if observed[-1]:
            stated.append(float(served.propensity[rows][0].double().prod()))
        else:
            stated.append(0.0)
    assert sum(observed) == 200_000
    total = sum(stated)
    assert total == pytest.approx(1, abs=1e-3)  # slates too rare to be seen are missing from it
    kept = [i for i, p in enumerate(stated) if p * 200_000 >= 5]
    rest = 200_000 - sum(observed[i] for i in kept)
    want = [stated[i] * 200_000 for i in kept]
    got = [observed[i] for i in kept]
    if 200_000 - sum(want) >= 5:
        want, got = [*want, 200_000 - sum(want)], [*got, rest]
    p = chisquare(got, [w * sum(got) / sum(want) for w in want]).pvalue
    print(f"{len(kept)} slates, p = {p:.3f}")
    assert p > 0.001


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
