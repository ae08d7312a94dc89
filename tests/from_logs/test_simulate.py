"""Expected regret: of policies on drawn problems, and of what was logged."""

import pytest
import torch

from tests.from_logs.cases import D, epsilon_greedy_decisions, random_log
from torch_softucb import LinUCB, SoftUCBPolicy, synthetic_problem
from torch_softucb.from_logs.posterior import fit_posterior
from torch_softucb.from_logs.simulate import baselines, logged_regret, simulated_regret


def _draw(log):
    posterior = fit_posterior(log)
    return lambda count, generator: posterior.draw(count, generator=generator)


def test_all_policies_meet_the_same_problems_and_noise_in_other_calls_too(seeded):
    draw = _draw(random_log(200, 5, 3, seeded)[0])
    policy, other = SoftUCBPolicy(3, beta_init=0.4), LinUCB(3, beta=0.4)
    settings = {"horizon": 20, "problems": 16, "compile": False}
    done = []
    regret = simulated_regret(
        draw, {0.5: policy, "again": policy, "other": other}, **settings, progress=lambda: done.append(1)
    )
    assert [*regret] == [0.5, "again", "other"]
    assert regret[0.5].shape == (16,)
    assert regret[0.5].dtype == D
    assert regret[0.5].equal(regret["again"])
    assert not regret[0.5].equal(regret["other"])
    assert len(done) == 3
    assert simulated_regret(draw, {1: other}, **settings)[1].equal(regret["other"])
    assert not simulated_regret(draw, {1: other}, **settings, seed=1)[1].equal(regret["other"])
    with pytest.raises(ValueError, match="problems must be at least 2"):
        simulated_regret(draw, {1: other}, horizon=20, problems=1)


def test_a_policy_with_statistics_and_another_beta_plays_as_a_new_one_with_that_beta(seeded):
    """with_beta copies the statistics; rollouts start without observations."""
    log, _ = random_log(200, 5, 3, seeded)
    draw, policy = _draw(log), SoftUCBPolicy(3, beta_init=2.0, delta=0.9, coldness="smooth")
    policy.update(log.x.float(), log.reward.float())
    new = SoftUCBPolicy(3, beta_init=0.3, delta=0.9, coldness="smooth")
    regret = simulated_regret(draw, {"copy": policy.with_beta(0.3), "new": new}, horizon=20, problems=16, compile=False)
    assert regret["copy"].equal(regret["new"])


def test_baselines_are_linucb_at_eq_5_and_at_the_same_beta():
    policy = SoftUCBPolicy(3, beta_init=0.7, ridge_alpha=2.0)
    found = baselines(policy, radius=3.5)
    assert {name: type(other) for name, other in found.items()} == {"LinUCB, Eq. 5": LinUCB, "LinUCB, same beta": LinUCB}
    assert [other.fixed_beta for other in found.values()] == pytest.approx([3.5, 0.7])
    assert all(other.ridge_alpha == 2.0 for other in found.values())


def test_logged_regret_is_that_of_the_truth_when_the_log_is_long(seeded):
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    log = epsilon_greedy_decisions(problem, 20_000, 200, 0.3, seeded(1))
    posterior = fit_posterior(log)
    for first in (None, 1000):
        truth = (problem.means.max() - problem.means[log.arm[:first]]).mean()
        drawn = logged_regret(posterior, first=first, generator=seeded(0))
        assert drawn.mean().item() == pytest.approx(truth.item(), rel=0.05)


def test_of_a_slate_the_first_item_counts(seeded):
    """Slates that show the arms from the best on: no regret, though the second item is not the best."""
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    log = epsilon_greedy_decisions(problem, 2000, 200, 0.3, seeded(1))
    best = problem.means.argsort(descending=True)
    position = torch.arange(2000) % 2
    arm = best[position]
    slates = log._replace(arm=arm, x=problem.arms[arm], position=position)
    slates = slates._replace(reward=problem.means[arm] + 0.01 * torch.randn(2000, dtype=D, generator=seeded(2)))
    posterior = fit_posterior(slates)
    posterior = posterior._replace(theta=fit_posterior(epsilon_greedy_decisions(problem, 20_000, 200, 0.5, seeded(3))).theta)
    assert float(logged_regret(posterior, generator=seeded(0)).mean()) < 0.02
