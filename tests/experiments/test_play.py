import pytest
import torch

from experiments.paper import settings
from experiments.paper.policies import learn_offline, learn_online, make, play, problems
from experiments.paper.settings import GRIDS, PANELS, QUICK
from experiments.paper.studies import ratio
from torch_softucb.learning.episode import Episode
from torch_softucb.training import BanditDataModule, SoftUCBOnline, trainer_for

PANEL = PANELS[0]


def test_splits_have_nothing_in_common():
    parts = [problems(PANEL, split, 4, part).means for split in ("train", "sweep", "test") for part in (0, 1)]
    for i, one in enumerate(parts):
        for other in parts[i + 1 :]:
            assert not torch.isclose(one, other).any()
    assert problems(PANEL, "test", 2).means.equal(parts[4][:2])


@pytest.mark.parametrize("name", [name for name in GRIDS if name not in ("SoftUCB offline", "SoftUCB online")])
def test_every_policy_plays_at_every_setting_of_its_grid(name):
    problem = problems(PANEL, "test", 2)
    values = GRIDS[name][1] if name == "SoftUCB, fixed beta" else [None, *GRIDS[name][1]]
    for value in values:
        regret = play(make(name, PANEL, 12, value), problem, "test", 12)
        assert regret.shape == (12, 2)
        assert regret.isfinite().all()


def test_online_is_the_trainers_algorithm(tmp_path):
    """The experiments' short loop and the LightningModule, same problems and streams."""
    problem = problems(PANEL, "test", 6)
    got = learn_online(PANEL, problem, "test", 24, eta=1.0)
    model = SoftUCBOnline(num_trajectories=6, dim=10, horizon=24, rounds_per_step=24, eta=1.0, lr=settings.LR_ONLINE)
    data = BanditDataModule(num_arms=50, dim=10, trajectories=6, num_steps=1, one_episode=True)
    from torch_softucb.rng import mixed_seed

    data.episode = lambda *_: Episode(problem, mixed_seed(2, 0, 3), mixed_seed(2, 0, 2))
    quick = {"enable_progress_bar": False, "callbacks": [], "enable_checkpointing": False, "limit_val_batches": 0}
    trainer_for(tmp_path, **quick).fit(model, datamodule=data)
    torch.testing.assert_close(model.curve, got.regret, atol=1e-3, rtol=0)


def test_offline_learns_and_repeats_itself():
    runs = [learn_offline(PANEL, QUICK) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0].beta[0] == 1.0
    assert runs[0].beta[-1] != 1.0


def test_ratio_of_pairs_by_hand():
    """Twice the regret on every problem: a ratio of 2 without error."""
    theirs = torch.tensor([1.0, 2.0, 5.0])
    assert ratio(2 * theirs, theirs) == pytest.approx((2.0, 2.0, 2.0))
    r, low, high = ratio(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 2.0]))
    assert r == 1.0
    assert high - r == pytest.approx(1.96 * 2**0.5 / 2**0.5 / 2)  # differences -1, 1: deviation sqrt 2, over sqrt 2, over 2
    assert low == pytest.approx(2 * r - high)
