"""Settings of the worth study: separate splits, the same problems on each call."""

import torch

from experiments.worth.settings import final_regret, lin_ucb, settings
from torch_softucb import LinUCB


def test_train_tune_and_test_share_no_problem():
    for setting in settings(real=False):
        drawn = [next(setting.episodes(split, 8, 24)).problem.means for split in ("tune", "test")]
        drawn.append(setting.lesson(0, 8, 24).problem.means)
        for i in range(3):
            for j in range(i):
                assert drawn[i].shape != drawn[j].shape or not torch.equal(drawn[i], drawn[j])


def test_a_mixture_has_members_of_many_sizes():
    (mixture,) = [setting for setting in settings(real=False) if setting.title == "Mixture"]
    sizes = {(episode.problem.dim, episode.horizon) for episode in mixture.episodes("test", 24, 16)}
    assert len(sizes) > 12


def test_final_regret_is_the_sum_over_each_trajectory():
    setting = settings(real=False)[0]
    total = final_regret(lin_ucb(0.5), setting.episodes("test", 8, 20))
    (episode,) = setting.episodes("test", 8, 20)
    by_hand = episode.play(LinUCB(10, beta=0.5), horizon=20, compile="native").regret.sum(0)
    assert torch.equal(total, by_hand)
