"""Serving through a head writes a log from which the statistics can be rebuilt."""

import torch

from experiments.recommender.new_users import new_users
from experiments.recommender.serve import serve
from tests.experiments.recommender.cases import ratings
from torch_softucb.recommend import read_log


def test_every_decision_is_logged_and_rewards_are_a_round_late(tmp_path):
    scenario = new_users(ratings(), rounds=4, candidates=5, delay=1, epochs=1)
    assert serve(scenario, tmp_path / "log", rounds=3) == 36
    log = read_log(tmp_path / "log")
    assert len(log.id) == 36
    assert len(log.rewarded.id) == 24
    assert bool(((log.propensity > 0) & (log.propensity <= 1)).all())
    assert torch.bincount(log.bandit).tolist() == [3] * 12
