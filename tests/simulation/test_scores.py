"""The terms of Eq. 13 and the scores of a round, by definition."""

import pytest
import torch

from tests.simulation.cases import DIM, problem_of
from torch_softucb import LinUCB, SoftUCBPolicy
from torch_softucb import functional as F
from torch_softucb.simulation.engine import Simulation
from torch_softucb.simulation.scores import check_has_scores, gradient_terms, round_scores
from torch_softucb.simulation.trajectory import SCORES


def _played(policy, seeded):
    """The decision of the tenth round, with the state it was made from, and the arms."""
    simulation = Simulation(policy, problem_of("masked", seeded), generator=seeded(1))
    for played in simulation.play(10):
        if played.t == 9:
            estimate = simulation.backend.setup.arms.estimate(simulation.state, simulation.state.num_observations)
            estimate = estimate._replace(mu_hat=estimate.mu_hat.clone(), width=estimate.width.clone())
            return simulation, estimate, played.arm.clone()
    raise AssertionError


@pytest.mark.parametrize("coldness", ["smooth", "current"])
def test_scores_are_what_their_names_promise(coldness, seeded):
    """The derivatives by central differences of the probabilities in beta and in the logit of delta."""
    policy = SoftUCBPolicy(DIM, beta_init=0.6, delta=0.9, coldness=coldness, dtype=torch.double)
    simulation, estimate, arm = _played(policy, seeded)
    problem, step = simulation.problem, 1e-6
    with torch.no_grad():
        decision = policy.decide(estimate, mask=problem.mask)
        got = dict(zip(SCORES, round_scores(policy, decision, problem.means, arm), strict=True))

        logit = torch.logit(torch.tensor(0.9, dtype=torch.double))

        def probs(beta=0.6, logit=logit):
            other = SoftUCBPolicy(
                DIM, beta_init=beta, delta=float(torch.sigmoid(logit)), coldness=coldness, dtype=torch.double
            )
            return other.decide(estimate, mask=problem.mask).probs

        sides = {
            "": (probs(beta=0.6 + step), probs(beta=0.6 - step)),
            "delta_": (probs(logit=logit + step), probs(logit=logit - step)),
        }
    for prefix, (up, down) in sides.items():
        rise = (up - down) / (2 * step)
        torch.testing.assert_close(got[f"{prefix}present"], (rise * problem.means).sum(-1), atol=1e-6, rtol=1e-5)
        log_rise = (up.log() - down.log()).gather(-1, arm.unsqueeze(-1)).squeeze(-1) / (2 * step)
        torch.testing.assert_close(got[f"{prefix}score"], log_rise, atol=1e-6, rtol=1e-5)
    best = problem.means.masked_fill(~problem.mask, -torch.inf).argmax(-1, keepdim=True)
    for name, value in (("best_prob", decision.probs), ("best_index", decision.index), ("best_width", decision.width)):
        assert got[name].equal(value.gather(-1, best).squeeze(-1))
    torch.testing.assert_close(got["mean_width"], (decision.probs * decision.width).sum(-1))
    inside = (problem.means - decision.mu_hat).abs() <= 0.6 * decision.width
    torch.testing.assert_close(got["coverage"], (inside & problem.mask).sum(-1) / problem.mask.sum(-1).double())
    terms = gradient_terms(policy, decision)
    torch.testing.assert_close(got["reward_slope"], terms.reward)
    torch.testing.assert_close(got["sum_width"], terms.penalty)


def test_gradient_terms_are_the_gradient_of_the_estimated_reward(seeded):
    """Eq. 13 by autograd, through functional.expected_reward."""
    policy = SoftUCBPolicy(DIM, beta_init=0.6, dtype=torch.double)
    simulation, estimate, _ = _played(policy, seeded)
    mask = simulation.problem.mask
    with torch.no_grad():
        decision = policy.decide(estimate, mask=mask)
        terms = gradient_terms(policy, decision)
    beta = torch.full((38,), 0.6, dtype=torch.double, requires_grad=True)
    value = F.expected_reward(beta, decision.mu_hat, decision.width, decision.gamma, mask=mask)
    torch.testing.assert_close(terms.value, value.detach())
    torch.testing.assert_close(terms.reward, torch.autograd.grad(value.sum(), beta)[0])
    torch.testing.assert_close(terms.penalty, (decision.width * mask).sum(-1))


def test_policies_without_the_derivatives_are_refused(seeded):
    lagged, other = SoftUCBPolicy(DIM, coldness="lagged"), LinUCB(DIM, dtype=torch.double)
    for policy in (lagged, other):
        check_has_scores(policy, False)
        with pytest.raises(ValueError, match="needs SoftUCBPolicy with coldness 'smooth'"):
            check_has_scores(policy, True)
    simulation, estimate, _ = _played(other, seeded)
    with pytest.raises(TypeError, match=r"gradient.*LinUCB"):
        gradient_terms(other, other.decide(estimate, mask=simulation.problem.mask))
