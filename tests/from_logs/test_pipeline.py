"""The whole pipeline: logs of several users, regret by beta, progress, the same numbers for the same seed."""

import pandas as pd
import pytest
import torch

from tests.from_logs.cases import random_log
from tests.from_logs.test_summary import write
from torch_softucb.from_logs import fit_prior, summary
from torch_softucb.from_logs.evaluate import split_log
from torch_softucb.from_logs.pipeline import GREEDY, LEARNED, TUNED, learn_from_log
from torch_softucb.from_logs.report import log_report
from torch_softucb.from_logs.summary import summary_in_memory

TINY = {"horizon": 20, "steps": 3, "trajectories": 8, "problems": 16, "compile": False}


def test_several_users(seeded):
    log, _ = random_log(900, 5, 3, seeded, bandits=4)
    steps = []
    result = learn_from_log(log, **TINY, progress=lambda stage, total: steps.append((stage, total)))
    assert result.policy.state.num_observations.tolist() == torch.bincount(log.bandit).tolist()
    assert [*result.logged] == ["all decisions"]
    assert result.value.logged.effective_sample_size == 450
    assert steps.count(("Learning beta", 3)) == 3
    assert steps.count(("Playing drawn problems", 29)) == 29
    again = learn_from_log(log, **TINY)
    assert again.betas == result.betas
    assert again.regret[LEARNED].equal(result.regret[LEARNED])
    assert again.value == result.value


def test_the_curve_holds_the_learned_beta_and_multiples_of_it(seeded):
    log, _ = random_log(300, 5, 3, seeded)
    result = learn_from_log(log, **TINY)
    beta = result.betas[-1]
    assert [*result.curve] == pytest.approx([beta * factor for factor in (1 / 8, 1 / 4, 1 / 2, 2**-0.5, 1, 2**0.5, 2, 4, 8)])
    soft_ucb, lin_ucb = result.curve[beta]
    assert soft_ucb is result.regret[LEARNED]
    assert lin_ucb is result.regret["LinUCB, same beta"]
    for soft_ucb, lin_ucb in result.curve.values():
        assert soft_ucb.shape == lin_ucb.shape == (16,)
        assert not soft_ucb.equal(lin_ucb)


def test_without_candidates_nothing_is_evaluated(seeded):
    log, _ = random_log(300, 5, 3, seeded)
    hidden = log._replace(features=log.features[:, :0], candidates=log.candidates[:, :0])
    result = learn_from_log(hidden, **TINY, num_arms=4)
    assert result.value is None
    assert result.logged == {}
    assert result.earlier_beta == result.betas[-1]
    assert result.posterior.offered.rows.shape == (300, 4)


def test_nothing_to_gain_is_found_with_one_arm(seeded):
    """One arm: nothing to explore, and no regret at all."""
    log, _ = random_log(200, 1, 3, seeded)
    result = learn_from_log(log, **TINY)
    assert result.regret[LEARNED].abs().max() < 1e-5
    assert result.value.gain.value.abs() < 1e-6


def test_the_policy_earns_more_than_chance(seeded):
    """Uniform logging among 5: off-policy, the gain is sure; and it is that of the truth."""
    log, theta = random_log(4000, 5, 3, seeded)
    result = learn_from_log(log, **TINY)
    most = (log.features[2000:] @ theta[0]).amax(-1).mean() - (log.x[2000:] @ theta[0]).mean()
    assert result.value.gain.low > 0
    assert result.value.gain.low < most  # the best arm is an upper bound


def test_files_are_learned_from_as_a_log_in_memory_is(tmp_path, seeded):
    log, _ = random_log(400, 5, 3, seeded, bandits=4)
    write(log, tmp_path / "log")
    streamed, in_memory = learn_from_log(tmp_path / "log", **TINY), learn_from_log(log, **TINY)
    assert streamed.betas == pytest.approx(in_memory.betas)
    torch.testing.assert_close(streamed.policy.statistics, in_memory.policy.statistics, rtol=0, atol=1e-9)
    torch.testing.assert_close(
        streamed.value.policy.value, in_memory.value.policy.value, rtol=1e-5, atol=0
    )  # float32 policy
    torch.testing.assert_close(streamed.value.logged.value, in_memory.value.logged.value, rtol=0, atol=1e-10)
    assert streamed.decisions == 400


def test_a_streamed_log_is_counted_and_not_its_sample(tmp_path, monkeypatch, seeded):
    monkeypatch.setattr(summary, "_SAMPLE", 50)
    log, _ = random_log(400, 5, 3, seeded)
    write(log._replace(reward=log.reward.masked_fill(torch.arange(400) % 4 == 0, torch.nan)), tmp_path / "log")
    result = learn_from_log(tmp_path / "log", **TINY)
    assert len(result.posterior.owner) == 50
    assert (result.decisions, result.rewarded) == (400, 300)
    assert "- 300 decisions (100 without a reward are left out), 1 bandit" in log_report(result, source="a test")


def test_greedy_and_tuned_linucb_are_compared(seeded):
    log, _ = random_log(300, 5, 3, seeded)
    result = learn_from_log(log, **TINY)
    assert [*result.regret] == [LEARNED, GREEDY, TUNED, "LinUCB, Eq. 5", "LinUCB, same beta"]
    assert result.regret[TUNED].equal(result.curve[result.tuned_beta][1])
    assert result.tuned_beta in result.curve


def test_streamed_files_without_propensities_are_learned_from_and_not_evaluated(tmp_path, seeded):
    log, _ = random_log(300, 5, 3, seeded)
    write(log, tmp_path / "log", leave_out=("propensity",))
    result = learn_from_log(tmp_path / "log", **TINY)
    assert result.value is None
    assert "the files have no propensities" in log_report(result, source="a test")


def test_an_offset_that_the_features_cannot_express_is_reported(seeded):
    log, _ = random_log(300, 5, 3, seeded)
    with pytest.warns(UserWarning, match=r"add a constant feature, or use prior='fit'"):
        result = learn_from_log(log._replace(reward=log.reward + 4), **TINY)
    assert "**Do not trust what follows**" in log_report(result, source="a test")


def test_ids_that_are_no_rows_are_refused_before_anything_is_learned(seeded):
    log, _ = random_log(300, 5, 3, seeded, bandits=3)
    stages = []
    with pytest.raises(ValueError, match="bandit ids must be rows"):
        learn_from_log(log._replace(bandit=log.bandit * 10**9), **TINY, progress=lambda stage, _: stages.append(stage))
    assert not stages


def test_one_model_for_all_users(seeded):
    log, _ = random_log(300, 5, 3, seeded, bandits=4)
    result = learn_from_log(log, **TINY, per_user=False)
    assert result.policy.batch_shape == ()
    assert result.policy.state.num_observations == 300
    assert result.posterior.names.tolist() == [-1]


def test_the_policy_carries_the_prior(seeded):
    log, theta = random_log(2000, 5, 3, seeded, bandits=40)
    log = log._replace(reward=log.reward + 3)
    result = learn_from_log(log, **TINY, prior="fit", noise="empirical", delay=1)
    assert result.policy.prior.offset == pytest.approx(3, abs=0.1)
    assert result.policy.prior.noise_std == pytest.approx(0.5, rel=0.1)
    assert result.policy.batch_shape == (40,)
    assert (result.posterior.theta.mean - theta).norm(dim=-1).mean() < 0.2
    earlier = fit_prior(summary_in_memory(split_log(log)[0]).sums)
    assert result.policy.prior == earlier  # no reward of the evaluation is in it
    given = learn_from_log(log, **TINY, prior=earlier, noise="empirical", delay=1)
    assert given.betas == result.betas
    with pytest.raises(ValueError, match="prior must be"):
        learn_from_log(log, **TINY, prior="guess")


def test_arguments_that_do_not_go_together_are_refused(seeded, tmp_path):
    log, _ = random_log(300, 5, 3, seeded, bandits=4)
    with pytest.raises(ValueError, match="ridge_alpha must not be given together with prior"):
        learn_from_log(log, **TINY, prior="fit", ridge_alpha=300.0)
    with pytest.raises(ValueError, match="prior='fit' needs at least two users, got one; log bandit="):
        learn_from_log(log, **TINY, prior="fit", per_user=False)
    with pytest.raises(TypeError, match=r"log must be decisions or files, got DataFrame; use read_decisions\(frame\)"):
        learn_from_log(pd.DataFrame({"x": [1.0]}), **TINY)


@pytest.mark.parametrize(
    ("delay", "error", "match"),
    [
        ("logged", TypeError, r"delay must be a number or probabilities, got 'logged'; use logged_delays\(folder\)"),
        ([0.9, 0.3], ValueError, "probabilities that add up to more than 0 and at most 1, got 1.2"),
        ([0.5, -0.1], ValueError, "delay must be in"),
        (-1, ValueError, "delay must be at least 0"),
    ],
)
def test_delays_are_checked_first(delay, error, match, seeded):
    log, _ = random_log(100, 5, 3, seeded)
    with pytest.raises(error, match=match):
        learn_from_log(log, **TINY, delay=delay)


def test_delays_may_be_a_list(seeded):
    log, _ = random_log(300, 5, 3, seeded)
    listed, given = (learn_from_log(log, **TINY, delay=delay) for delay in ([0.5, 0.25], torch.tensor([0.5, 0.25])))
    assert listed.betas == given.betas
