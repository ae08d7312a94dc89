"""Off-policy evaluation of a policy that learned from a log: held-out decisions, intervals that cover, overlap."""

import pytest
import torch

from tests.from_logs.cases import D, epsilon_greedy_decisions, random_log
from torch_softucb import EpsilonGreedy, GaussianPrior, SoftUCBPolicy, synthetic_problem
from torch_softucb import functional as F
from torch_softucb.from_logs._checks import check_dense_ids
from torch_softucb.from_logs.evaluate import evaluate_on_log, greedy_of, mean_interval, split_log, target_probs, warm_start
from torch_softucb.from_logs.posterior import fit_posterior


def _evaluated(log, *, beta=0.4):
    earlier, later = split_log(log)
    policy = SoftUCBPolicy(log.x.shape[1], beta_init=beta, coldness="smooth", dtype=D)
    warm_start(policy, earlier)
    past, candidates = fit_posterior(earlier), fit_posterior(log).offered
    rows = slice(len(earlier.arm), None)
    candidates = candidates.select(rows)
    return policy, later, evaluate_on_log(policy, later, candidates=candidates, posterior=past), candidates


@pytest.mark.slow
def test_intervals_cover_the_true_value_of_the_policy(seeded):
    """200 logs of 1,000 decisions by a policy that learns while it logs; the truth is sum_i p_i mu_i.

    95% less three standard errors of a share of 200 logs: 90%.
    """
    covered = gained = 0
    for number in range(200):
        problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(number), dtype=D)[0]
        log = epsilon_greedy_decisions(problem, 1000, 50, 0.3, seeded(1000 + number))
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
    log = epsilon_greedy_decisions(problem, 400, 50, 0.3, seeded(1))
    earlier, later = split_log(log, share=0.25)
    assert len(earlier.arm) == 100
    assert torch.cat((earlier.id, later.id)).equal(log.id)
    policy, _, value, candidates = _evaluated(log)
    changed = log._replace(reward=torch.cat((log.reward[:200], log.reward[200:] + 5)))
    again, _, other, _ = _evaluated(changed)
    assert again.statistics.equal(policy.statistics)
    assert target_probs(again, later, candidates).equal(target_probs(policy, later, candidates))
    assert other.logged.value.item() == pytest.approx(value.logged.value.item() + 5)


def test_without_propensities_they_are_estimated_and_marked(seeded):
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    log = epsilon_greedy_decisions(problem, 400, 50, 1.0, seeded(1))  # uniform choices
    hidden = log._replace(propensity=torch.full_like(log.propensity, torch.nan))
    _, later, value, _ = _evaluated(hidden)
    assert value.estimated == "the frequency of each item"
    assert _evaluated(log)[2].estimated is None
    frequency = torch.bincount(later.arm).double() / len(later.arm)
    known = log._replace(propensity=torch.cat((log.propensity[:200], frequency[later.arm])))
    assert _evaluated(known)[2].policy == value.policy


def test_greedy_is_judged_beside_the_policy(seeded):
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    policy, later, value, candidates = _evaluated(epsilon_greedy_decisions(problem, 400, 50, 0.3, seeded(1)))
    greedy = greedy_of(policy)
    with torch.no_grad():
        best = policy(problem.arms).mu_hat.argmax()
    assert target_probs(greedy, later, candidates)[0].tolist() == [float(i == best) for i in range(8)]
    torch.testing.assert_close(value.model_gain.value, value.greedy.value - value.logged.value)
    torch.testing.assert_close(value.exploration_gain.value, value.policy.value - value.greedy.value)


@pytest.mark.parametrize("bandits", [0, 3])
def test_a_warm_start_is_the_policy_after_all_updates(bandits, seeded):
    log, _ = random_log(60, 5, 3, seeded, bandits=bandits or None)
    prior = GaussianPrior(torch.tensor([0.4, -0.2, 0.1]), 0.3 * torch.eye(3) + 0.1, noise_std=0.5, offset=2.0)
    for settings in ({"prior": prior}, {"ridge_alpha": 2.0}):
        policy, other = (SoftUCBPolicy(3, dtype=D, **settings) for _ in range(2))
        warm_start(policy, log)
        other.reset(batch_shape=(3,) if bandits else ())
        other.update(log.x, log.reward, bandit=log.bandit if bandits else None)
        torch.testing.assert_close(policy.statistics, other.statistics, rtol=0, atol=1e-10)


def test_only_first_items_of_slates_count_and_missing_rewards_are_left_out(seeded):
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    log = epsilon_greedy_decisions(problem, 400, 50, 0.3, seeded(1))
    slates = log._replace(position=torch.arange(400) % 2)
    assert _evaluated(slates)[2].logged.effective_sample_size == 100
    some = log._replace(reward=log.reward.masked_fill(torch.arange(400) % 4 == 0, torch.nan))
    assert _evaluated(some)[2].logged.effective_sample_size == 150


def test_several_bandits_are_judged_by_their_own_statistics(seeded):
    """One of the bandits is met in the later decisions only."""
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    log = epsilon_greedy_decisions(problem, 600, 50, 0.3, seeded(1))
    log = log._replace(bandit=torch.where(torch.arange(600) >= 500, 2, torch.arange(600) % 2))
    earlier, later = split_log(log)
    policy = SoftUCBPolicy(4, beta_init=0.4, dtype=D)
    warm_start(policy, earlier, num_bandits=3)
    assert policy.state.num_observations.tolist() == [150, 150, 0]
    candidates = fit_posterior(log).offered.select(slice(300, None))
    probs = target_probs(policy, later, candidates)
    with torch.no_grad():
        torch.testing.assert_close(probs[1], policy(problem.arms.expand(3, -1, -1)).probs[1])
    torch.testing.assert_close(probs[-1], torch.full((8,), 1 / 8, dtype=D))  # knows nothing
    value = evaluate_on_log(policy, later, candidates=candidates, posterior=fit_posterior(earlier))
    assert value.policy.low < value.policy.value < value.policy.high


def test_intervals_of_means(seeded):
    found = mean_interval(torch.randn(10_000, dtype=D, generator=seeded(0)))
    assert (found.high - found.low).item() == pytest.approx(2 * 1.96 / 100, rel=0.03)


def test_what_cannot_be_evaluated_is_named(seeded):
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    log = epsilon_greedy_decisions(problem, 100, 50, 0.3, seeded(1))
    with pytest.raises(ValueError, match=r"share must be in \(0, 1\)"):
        split_log(log, share=1.0)
    with pytest.raises(ValueError, match="share must leave at least two decisions on either side, got 1 and 99 of 100"):
        split_log(log, share=0.01)
    posterior = fit_posterior(log)
    unknown = posterior.offered._replace(known=False)
    with pytest.raises(ValueError, match="the log does not contain the candidates"):
        evaluate_on_log(SoftUCBPolicy(4, dtype=D), log, candidates=unknown, posterior=posterior)
    with pytest.raises(TypeError, match="policy must be a SoftUCBPolicy, got EpsilonGreedy"):
        evaluate_on_log(EpsilonGreedy(4, dtype=D), log, candidates=unknown, posterior=posterior)


def test_ids_that_are_no_rows_are_refused():
    """Statistics are made for every id up to the largest."""
    with pytest.raises(ValueError, match="bandit ids must be rows of the statistics, from 0, got 3 bandits with ids up to"):
        check_dense_ids("warm_start", 3_000_000, 3)
    check_dense_ids("warm_start", 100_000, 20_000)


def test_a_mean_is_the_direct_method_of_a_policy_with_one_arm(seeded):
    """The same numbers, written plainly."""
    values = torch.randn(1000, dtype=D, generator=seeded(0))
    want = F.direct_method(torch.ones(1000, 1, dtype=D), values.unsqueeze(-1), confidence=0.9)
    assert mean_interval(values, confidence=0.9) == want
    with pytest.raises(ValueError, match=r"mean_interval: values must have shape \(n,\), n >= 2, got \(1,\)"):
        mean_interval(values[:1])


def test_the_gain_is_the_doubly_robust_value_less_what_was_logged(seeded):
    problem = synthetic_problem(num_problems=1, num_arms=8, dim=4, generator=seeded(0), dtype=D)[0]
    value = _evaluated(epsilon_greedy_decisions(problem, 400, 50, 0.3, seeded(1)))[2]
    torch.testing.assert_close(value.gain.value, value.policy.value - value.logged.value)
    assert value.largest_weight >= 1
