"""The optimisation loop: where it ends, what it leaves alone, what it accepts."""

import pytest
import torch

from torch_softucb import LinUCB, ScheduleBeta, SoftUCBPolicy, rollout, synthetic_problem
from torch_softucb.learning import Dual, Episode, fit, fit_episodes
from torch_softucb.learning.fitting import take_step
from torch_softucb.learning.optimisers import Optimisation


def _problems(count, generator):
    return synthetic_problem(num_problems=count, num_arms=8, dim=3, generator=generator)


@pytest.mark.parametrize("estimator", ["trajectory", "common_random_numbers"])
def test_both_sides_lead_to_less_regret(estimator, seeded):
    for start in (0.05, 4.0):
        policy = SoftUCBPolicy(3, beta_init=start, coldness="smooth")
        result = fit(policy, _problems, horizon=40, estimator=estimator, steps=12, trajectories=64)
        test = _problems(512, seeded(99))
        before, after = (
            rollout(p, test, horizon=40, generator=seeded(98)).regret.sum(0).mean()
            for p in (policy.with_beta(start), policy)
        )
        assert after < 0.9 * before
        assert len(result.betas) == 13
        assert len(result.regrets) == 12
        assert result.betas[0] == pytest.approx(start)
        assert result.betas[-1] == float(policy.beta.detach())


def test_statistics_are_neither_read_nor_changed(seeded):
    one, other = SoftUCBPolicy(3, coldness="smooth"), SoftUCBPolicy(3, coldness="smooth")
    one.update(torch.randn(20, 3, generator=seeded(0)), torch.randn(20, generator=seeded(1)))
    kept = one.statistics.clone()
    betas = [fit(policy, _problems, horizon=20, steps=3, trajectories=32).betas for policy in (one, other)]
    assert betas[0] == betas[1]
    assert one.statistics.equal(kept)


def test_a_seed_decides_the_run_and_progress_follows_it():
    runs = []
    for seed in (1, 1, 2):
        calls = []
        policy = SoftUCBPolicy(3, coldness="smooth")
        result = fit(
            policy,
            _problems,
            horizon=20,
            steps=3,
            trajectories=32,
            seed=seed,
            progress=lambda step, p, calls=calls: calls.append((step, float(p.beta.detach()))),
        )
        assert [step for step, _ in calls] == [1, 2, 3]
        assert [beta for _, beta in calls] == result.betas[1:]
        runs.append(result.betas)
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("batch", [None, 5])
def test_a_plain_problem_is_played_with_new_noise(batch, seeded):
    problem = _problems(batch or 1, seeded(0))
    problem = problem if batch else problem[0]
    policy = SoftUCBPolicy(3, coldness="smooth")
    result = fit(policy, problem, horizon=20, steps=4, trajectories=64)
    assert len(set(result.regrets)) == 4
    assert policy.beta < 1


def test_a_module_learns_and_has_no_single_beta():
    policy = SoftUCBPolicy(3, beta_init=ScheduleBeta(30, init=2.0), coldness="smooth")
    result = fit(policy, _problems, horizon=30, steps=5, trajectories=64)
    assert result.betas == []
    assert (policy.beta_module.log_beta < 0.69).any()


def test_the_papers_estimator_with_a_dual_variable():
    policy, dual = SoftUCBPolicy(3), Dual(0.85)
    before = dual.eta
    fit(policy, _problems, horizon=30, estimator="paper", steps=5, trajectories=64, eta=dual)
    assert dual.eta != before


def test_policies_of_several_sizes_share_what_is_learned(seeded):
    schedule = ScheduleBeta(20)
    sizes = (2, 4)
    episodes = [
        Episode(synthetic_problem(num_problems=16, num_arms=5, dim=d, generator=seeded(d)), 1, 2, horizon=20) for d in sizes
    ]
    optimisation = Optimisation(torch.optim.SGD(schedule.parameters(), lr=0.1))
    start = schedule.log_beta.detach().clone()
    played = list(
        fit_episodes(
            lambda episode: SoftUCBPolicy(episode.problem.dim, beta_init=schedule, coldness="smooth"),
            episodes,
            estimator="trajectory",
            optimisation=optimisation,
            normalise=True,
        )
    )
    assert [policy.dim for policy, _ in played] == list(sizes)
    assert not schedule.log_beta.equal(start)


def test_a_step_keeps_beta_at_0_or_above():
    policy = SoftUCBPolicy(3, beta_init=0.1)
    take_step(policy, policy.beta * 10, Optimisation(torch.optim.SGD(policy.parameters(), lr=1.0)))
    assert policy.raw_beta.item() == 0.0


def test_bad_input():
    policy = SoftUCBPolicy(3)
    with pytest.raises(ValueError, match="estimator must be one of 'paper', 'trajectory'"):
        fit(policy, _problems, horizon=10, estimator="reinforce")
    with pytest.raises(ValueError, match="steps must be at least 1"):
        fit(policy, _problems, horizon=10, steps=0)
    with pytest.raises(ValueError, match="horizon must be at least 1"):
        fit(policy, _problems, horizon=0)
    with pytest.raises(TypeError, match="policy must be a SoftUCBPolicy, got LinUCB"):
        fit(LinUCB(3), _problems, horizon=10)
    for wrong in (None, [1, 2], torch.ones(3)):
        with pytest.raises(TypeError, match=r"problems must be a BanditProblem or a function \(count, generator\)"):
            fit(policy, wrong, horizon=10)
    for eta in (-1.0, float("nan"), "auto"):
        with pytest.raises((ValueError, TypeError), match="fit: eta must be"):
            fit(policy, _problems, horizon=10, estimator="paper", eta=eta)
    with pytest.raises(ValueError, match="must have a parameter that requires a gradient"):
        fit(SoftUCBPolicy(3).requires_grad_(False), _problems, horizon=10)
    assert policy.beta == 1.0
