"""Policies by name, and the two learning loops of the paper's experiments."""

import pytest
import torch

from experiments.paper import settings
from experiments.paper.policies import cumulative_regret, learn_offline, learn_online, make_policy
from experiments.paper.problems import problems
from experiments.paper.settings import GRIDS, PANELS
from experiments.seeds import seed_for
from experiments.sizes import QUICK
from torch_softucb.learning.episode import Episode
from torch_softucb.training import BanditDataModule, SoftUCBOnline, trainer_for

PANEL = PANELS[0]


@pytest.mark.parametrize("name", [name for name in GRIDS if name not in ("SoftUCB offline", "SoftUCB online")])
def test_every_policy_plays_at_every_setting_of_its_grid(name):
    problem = problems(PANEL, "test", 2)
    values = GRIDS[name][1] if name == "SoftUCB, fixed beta" else [None, *GRIDS[name][1]]
    for value in values:
        regret = cumulative_regret(make_policy(name, PANEL, 12, value), problem, "test", 12)
        assert regret.shape == (12, 2)
        assert regret.isfinite().all()


def test_online_is_the_trainers_algorithm(tmp_path):
    """The short loop of the experiments and the LightningModule agree on the same problems and random numbers."""
    problem = problems(PANEL, "test", 6)
    got = learn_online(PANEL, problem, "test", 24, eta=1.0)
    model = SoftUCBOnline(num_trajectories=6, dim=10, horizon=24, rounds_per_step=24, eta=1.0, lr=settings.LR_ONLINE)
    data = BanditDataModule(num_arms=50, dim=10, trajectories=6, num_steps=1, one_episode=True)
    data.episode = lambda *_: Episode(problem, seed_for("test", 0, "noise"), seed_for("test", 0, "action"))
    quick = {"enable_progress_bar": False, "callbacks": [], "enable_checkpointing": False, "limit_val_batches": 0}
    trainer_for(tmp_path, **quick).fit(model, datamodule=data)
    torch.testing.assert_close(model.curve, got.regret, atol=1e-3, rtol=0)


def test_offline_learns_and_repeats_itself():
    runs = [learn_offline(PANEL, QUICK.paper) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0].beta[0] == 1.0
    assert runs[0].beta[-1] != 1.0
