"""Estimated propensities: frequencies by hand, the logit against plain gradient ascent, laws, bad input."""

import pytest
import torch

from tests.from_logs.cases import D, random_log
from torch_softucb.from_logs.behaviour import estimate_propensities
from torch_softucb.from_logs.candidates import CandidateSets, candidate_sets


def _logit_sets(n, k, d, w, g):
    """Return candidate sets whose choices follow a logit, and the true probabilities of the choices."""
    x = torch.randn(n, k, d, dtype=D, generator=g)
    rows = torch.arange(n * k).view(n, k).clone()
    rows[: n // 2, -1] = -1
    logits = (x @ w).masked_fill(rows < 0, -torch.inf)
    arm = torch.multinomial(logits.softmax(-1), 1, generator=g).squeeze(-1)
    sets = CandidateSets(x.flatten(0, 1), rows, arm, known=True, source="", unseen=0)
    return sets, logits.softmax(-1).gather(-1, arm.unsqueeze(-1)).squeeze(-1)


def test_frequencies_of_fixed_candidates():
    arm = torch.tensor([2, 0, 2, 2, 1])
    sets = CandidateSets(torch.eye(3, dtype=D), torch.arange(3).expand(5, -1), arm, known=True, source="", unseen=0)
    found = estimate_propensities(sets)
    assert found.propensity.tolist() == [0.6, 0.2, 0.6, 0.6, 0.2]
    assert found.source == "the frequency of each item"


def test_the_logit_maximises_the_penalised_likelihood(seeded):
    sets, _ = _logit_sets(40, 4, 2, torch.tensor([1.0, -0.5], dtype=D), seeded(0))
    w = torch.zeros(2, dtype=D, requires_grad=True)
    x, mask = sets.sets(slice(None))
    x = x / sets.items.std(0, correction=0)
    optimiser = torch.optim.LBFGS(
        [w], max_iter=200, tolerance_grad=1e-13, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def chosen():
        log_probs = (x @ w).masked_fill(~mask, -torch.inf).log_softmax(-1)
        return log_probs.gather(-1, sets.arm.unsqueeze(-1)).squeeze(-1)

    def loss():
        optimiser.zero_grad()
        total = 0.7 * w @ w / 2 - chosen().sum()
        total.backward()
        return total

    optimiser.step(loss)
    found = estimate_propensities(sets, ridge_alpha=0.7)
    torch.testing.assert_close(found.propensity, chosen().detach().exp(), rtol=0, atol=1e-8)
    assert found.source == "a multinomial logit over the candidates' features"


def test_the_logit_finds_the_probabilities_of_a_softmax_policy(seeded):
    """20,000 choices, 3 weights: standard errors of 0.01 in w move probabilities of 4 candidates by far less than 0.02."""
    sets, truth = _logit_sets(20_000, 4, 3, torch.tensor([1.0, -0.5, 0.3], dtype=D), seeded(1))
    assert (estimate_propensities(sets).propensity - truth).abs().max() < 0.05
    assert (estimate_propensities(sets).propensity - truth).abs().mean() < 0.01


def test_the_unit_of_the_features_does_not_matter(seeded):
    sets, _ = _logit_sets(200, 4, 2, torch.tensor([1.0, -0.5], dtype=D), seeded(2))
    other = sets._replace(items=sets.items * torch.tensor([1000.0, 0.01], dtype=D) + 7)
    want = estimate_propensities(sets).propensity
    torch.testing.assert_close(estimate_propensities(other).propensity, want, rtol=0, atol=1e-9)


def test_a_deterministic_policy_gets_probabilities_below_1(seeded):
    """Choices that features separate have no finite maximum likelihood; the penalty gives one."""
    log, theta = random_log(300, 5, 3, seeded)
    sets = candidate_sets(log)
    best = (log.features @ theta[0]).argmax(-1)
    found = estimate_propensities(sets._replace(arm=best)).propensity
    assert found.mean() > 0.8
    assert 0 < found.min() <= found.max() < 1


def test_bad_input_is_named(seeded):
    log, _ = random_log(20, 5, 3, seeded)
    sets = candidate_sets(log)
    with pytest.raises(ValueError, match="estimate_propensities: the log does not contain the candidates"):
        estimate_propensities(sets._replace(known=False))
    with pytest.raises(ValueError, match="ridge_alpha must be"):
        estimate_propensities(sets, ridge_alpha=0.0)
