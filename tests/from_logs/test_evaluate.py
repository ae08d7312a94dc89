"""Off-policy evaluation of a policy that learned from a log: held-out decisions, intervals that cover, overlap."""

import pytest
import torch

from torch_softucb import EpsilonGreedy, SoftUCBPolicy, synthetic_problem
from torch_softucb import functional as F
from torch_softucb.from_logs._checks import check_dense_ids
from torch_softucb.from_logs.evaluate import log_probs, split_log, value_on_log, warm_start
from torch_softucb.from_logs.posterior import fit_posterior
from torch_softucb.from_logs.simulate import logged_regret, mean_interval
from torch_softucb.recommend.log.reader import LoggedDecisions

D = torch.double


def _epsilon_greedy(problem, n, batch, epsilon, g):
    """A log in memory, as tests/recommend reads them from disk: the policy learns from every batch."""
    policy = EpsilonGreedy(problem.dim, epsilon=epsilon, dtype=D)
    arms, parts = problem.arms, []
    for _ in range(n // batch):
        with torch.no_grad():
            probs = policy(arms).probs.expand(batch, -1)
        arm = F.draw_arm(probs, torch.rand(batch, dtype=D, generator=g))
        reward = problem.means[arm] + problem.noise_std * torch.randn(batch, dtype=D, generator=g)
        policy.update(arms[arm], reward)
        parts.append((arm, probs.gather(1, arm[:, None])[:, 0], arms[arm], reward))
    arm, propensity, x, reward = (torch.cat(column) for column in zip(*parts, strict=True))
    one = torch.zeros(len(arm), dtype=torch.int64)
    return LoggedDecisions(
        id=torch.arange(len(arm)),
        bandit=one - 1,
        context=one,
        arm=arm,
        position=one,
        propensity=propensity,
        beta=propensity,
        version=one,
        x=x,
        reward=reward,
        candidates=torch.arange(problem.num_arms).expand(len(arm), -1),
        features=arms.expand(len(arm), -1, -1),
    )


def _evaluated(log, *, beta=0.4):
    earlier, later = split_log(log)
    policy = SoftUCBPolicy(log.x.shape[1], beta_init=beta, coldness="smooth", dtype=D)
    warm_start(policy, earlier)
    past, offered = fit_posterior(earlier), fit_posterior(log).offered
    rows = slice(len(earlier.arm), None)
    offered = offered._replace(rows=offered.rows[rows], arm=offered.arm[rows])
    return policy, later, value_on_log(policy, later, offered=offered, posterior=past), offered


@pytest.mark.slow
def test_intervals_cover_the_true_value_of_the_policy(seeded):
    """200 logs of 1,000 decisions by a policy that learns while it logs; the truth is sum_i p_i mu_i.

    95% less three standard errors of a share of 200 logs: 90%.
    """
    covered = gained = 0
    for number in range(200):
        problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(number), dtype=D)[0]
        log = _epsilon_greedy(problem, 1000, 50, 0.3, seeded(1000 + number))
        policy, later, value, _ = _evaluated(log)
        with torch.no_grad():
            truth = (policy(problem.arms).probs * problem.means).sum()
        covered += bool(value.policy.low <= truth <= value.policy.high)
        # what was logged has a value, too: that of the probabilities that the later decisions were drawn with
        greedy = (later.propensity > 0.3 / 8 + 1e-9).double()
        assert ((later.propensity - 0.3 / 8 - greedy * 0.7).abs() < 1e-9).all()  # no ties after the first batch
        best = later.arm[greedy.bool()]
        mixed = 0.3 * problem.means.mean() + 0.7 * problem.means[best].mean()
        gained += bool(value.gain.low <= truth - mixed <= value.gain.high)
    print(f"the value was covered in {covered} of 200 logs, the gain in {gained}")
    assert covered >= 180
    assert gained >= 180


def test_the_policy_never_sees_what_it_is_judged_by(seeded):
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    log = _epsilon_greedy(problem, 400, 50, 0.3, seeded(1))
    earlier, later = split_log(log, share=0.25)
    assert len(earlier.arm) == 100
    assert torch.cat((earlier.id, later.id)).equal(log.id)
    policy, _, value, offered = _evaluated(log)
    changed = log._replace(reward=torch.cat((log.reward[:200], log.reward[200:] + 5)))
    again, _, other, _ = _evaluated(changed)
    assert again.statistics.equal(policy.statistics)
    assert log_probs(again, later, offered).equal(log_probs(policy, later, offered))
    assert other.logged.value.item() == pytest.approx(value.logged.value.item() + 5)


def test_only_first_items_of_slates_count_and_missing_rewards_are_left_out(seeded):
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    log = _epsilon_greedy(problem, 400, 50, 0.3, seeded(1))
    slates = log._replace(position=torch.arange(400) % 2)
    assert _evaluated(slates)[2].logged.effective_sample_size == 100
    some = log._replace(reward=log.reward.masked_fill(torch.arange(400) % 4 == 0, torch.nan))
    assert _evaluated(some)[2].logged.effective_sample_size == 150


def test_several_bandits_are_judged_by_their_own_statistics(seeded):
    """One of the bandits is met in the later decisions only."""
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    log = _epsilon_greedy(problem, 600, 50, 0.3, seeded(1))
    log = log._replace(bandit=torch.where(torch.arange(600) >= 500, 2, torch.arange(600) % 2))
    earlier, later = split_log(log)
    policy = SoftUCBPolicy(4, beta_init=0.4, dtype=D)
    warm_start(policy, earlier, num_bandits=3)
    assert policy.state.num_observations.tolist() == [150, 150, 0]
    offered = fit_posterior(log).offered
    offered = offered._replace(rows=offered.rows[300:], arm=offered.arm[300:])
    probs = log_probs(policy, later, offered)
    with torch.no_grad():
        torch.testing.assert_close(probs[1], policy(problem.arms.expand(3, -1, -1)).probs[1])
    torch.testing.assert_close(probs[-1], torch.full((8,), 1 / 8, dtype=D))  # knows nothing
    value = value_on_log(policy, later, offered=offered, posterior=fit_posterior(earlier))
    assert value.policy.low < value.policy.value < value.policy.high


def test_logged_regret_is_that_of_the_truth_when_the_log_is_long(seeded):
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    log = _epsilon_greedy(problem, 20_000, 200, 0.3, seeded(1))
    posterior = fit_posterior(log)
    for first in (None, 1000):
        truth = (problem.means.max() - problem.means[log.arm[:first]]).mean()
        drawn = logged_regret(posterior, first=first, generator=seeded(0))
        assert drawn.mean().item() == pytest.approx(truth.item(), rel=0.05)


def test_intervals_of_means(seeded):
    found = mean_interval(torch.randn(10_000, dtype=D, generator=seeded(0)))
    assert (found.high - found.low).item() == pytest.approx(2 * 1.96 / 100, rel=0.03)


def test_what_cannot_be_evaluated_is_named(seeded):
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    log = _epsilon_greedy(problem, 100, 50, 0.3, seeded(1))
    with pytest.raises(ValueError, match=r"share must be in \(0, 1\)"):
        split_log(log, share=1.0)
    with pytest.raises(ValueError, match="share must leave at least two decisions on either side, got 1 and 99 of 100"):
        split_log(log, share=0.01)
    posterior = fit_posterior(log)
    unknown = posterior.offered._replace(known=False)
    with pytest.raises(ValueError, match="the log does not say what was on offer"):
        value_on_log(SoftUCBPolicy(4, dtype=D), log, offered=unknown, posterior=posterior)
    with pytest.raises(TypeError, match="policy must be a SoftUCBPolicy, got EpsilonGreedy"):
        value_on_log(EpsilonGreedy(4, dtype=D), log, offered=unknown, posterior=posterior)


def test_ids_that_are_no_rows_are_refused():
    """Statistics are made for every id up to the largest."""
    with pytest.raises(ValueError, match="bandit ids must be rows of the statistics, from 0, got 3 bandits with ids up to"):
        check_dense_ids("warm_start", 3_000_000, 3)
    check_dense_ids("warm_start", 100_000, 20_000)


def test_of_a_slate_the_first_item_counts(seeded):
    """Slates that show the arms from the best on: no regret, though the second item is not the best."""
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    log = _epsilon_greedy(problem, 2000, 200, 0.3, seeded(1))
    best = problem.means.argsort(descending=True)
    position = torch.arange(2000) % 2
    arm = best[position]
    slates = log._replace(arm=arm, x=problem.arms[arm], position=position)
    slates = slates._replace(reward=problem.means[arm] + 0.01 * torch.randn(2000, dtype=D, generator=seeded(2)))
    posterior = fit_posterior(slates)
    posterior = posterior._replace(theta=fit_posterior(_epsilon_greedy(problem, 20_000, 200, 0.5, seeded(3))).theta)
    assert float(logged_regret(posterior, generator=seeded(0)).mean()) < 0.02
