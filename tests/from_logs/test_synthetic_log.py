"""The log of an epsilon-greedy policy: propensities, rewards, candidates, the same log for the same seed."""

import pytest
import torch

from torch_softucb import synthetic_problem
from torch_softucb.from_logs.synthetic_log import epsilon_greedy_log
from torch_softucb.recommend import read_decisions


def test_decisions_are_epsilon_greedy_and_rewards_are_the_problem_s(tmp_path, seeded):
    problem = synthetic_problem(num_problems=1, num_arms=5, dim=3, generator=seeded(0))[0]
    epsilon_greedy_log(tmp_path, problem, decisions=2000, batch=50, epsilon=0.2)
    log = read_decisions(tmp_path)
    assert log.x.float().equal(problem.arms[log.arm])
    assert log.candidates.equal(torch.arange(5).expand(2000, -1))
    assert log.features.shape[1] == 0
    later = log.propensity[50:]  # in the first batch nothing is known, and all arms tie
    explored = (later - 0.2 / 5).abs() < 1e-6
    assert (explored | ((later - 0.84).abs() < 1e-6)).all()
    assert abs(explored.double().mean().item() - 0.16) < 5 * (0.16 * 0.84 / 1950) ** 0.5
    noise = log.reward - problem.means[log.arm].double()
    assert abs(noise.mean().item()) < 5 * 0.5 / 2000**0.5
    assert noise.std().item() == pytest.approx(0.5, rel=0.1)


def test_features_are_logged_on_request_and_seeds_repeat(tmp_path, seeded):
    problem = synthetic_problem(num_problems=1, num_arms=5, dim=3, generator=seeded(0))[0]
    logs = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        epsilon_greedy_log(tmp_path / name, problem, decisions=100, features=True, seed=seed)
        logs.append(read_decisions(tmp_path / name))
    assert logs[0].features.float().equal(problem.arms.expand(100, -1, -1))
    assert logs[0].reward.equal(logs[1].reward)
    assert not logs[0].reward.equal(logs[2].reward)


def test_bad_settings_are_named(seeded):
    problem = synthetic_problem(num_problems=4, num_arms=3, dim=2, generator=seeded(0))
    with pytest.raises(ValueError, match="problem must be a single one"):
        epsilon_greedy_log("unused", problem)
    with pytest.raises(ValueError, match="decisions must be a multiple of the number of requests in a batch, 100, got 150"):
        epsilon_greedy_log("unused", problem[0], decisions=150)
