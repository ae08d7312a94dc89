"""Data modules: disjoint stages, shares of processes, loaders that continue where they were."""

import types

import pytest
import torch

from torch_softucb.training import BanditDataModule, SoftUCBOffline
from torch_softucb.training.data import EpisodeLoader, planned_steps


def test_fixed_and_fresh_problems(tiny):
    fixed, fresh = tiny(), tiny(fresh_problems=True)
    a, b = (fixed.episode("train", n, 8) for n in (0, 1))
    assert a.problem.means.equal(b.problem.means)
    assert a.noise_seed != b.noise_seed
    assert fixed.episode("validate", 0, 8).problem.means.equal(a.problem.means)
    c, d = (fresh.episode("train", n, 8) for n in (0, 1))
    assert not c.problem.means.equal(d.problem.means)
    assert not fresh.episode("validate", 0, 8).problem.means.equal(c.problem.means)
    seeds = {fresh.episode(stage, n, 8).noise_seed for stage in ("train", "validate", "test") for n in range(5)}
    assert len(seeds) == 15


@pytest.mark.parametrize(
    "trainer_kwargs",
    [
        {},
        {"max_epochs": 3},
        {"max_steps": 4},
        {"limit_train_batches": 4},
        {"limit_train_batches": 0.5},
        {"accumulate_grad_batches": 4, "max_epochs": 2},
    ],
)
def test_the_number_of_steps_is_known_beforehand(trainer_kwargs, tiny, fit):
    steps = []

    class Asked(SoftUCBOffline):
        def configure_optimizers(self):
            steps.extend((planned_steps(self.trainer), self.trainer.estimated_stepping_batches))
            return super().configure_optimizers()

    fit(Asked(dim=3, horizon=4), tiny(), limit_val_batches=0, **trainer_kwargs)
    assert steps[0] == steps[1]


def test_a_loader_continues_where_it_was(tiny):
    data = tiny(fresh_problems=True)
    whole = [episode.noise_seed for episode in data.train_dataloader()]
    first = data.train_dataloader()
    batches = iter(first)
    begun = [next(batches).noise_seed for _ in range(2)]
    later = data.train_dataloader()
    later.load_state_dict(first.state_dict())
    assert begun + [episode.noise_seed for episode in later] == whole
    assert len(list(later)) == len(later) == 6  # a new epoch starts from the beginning


def test_a_loader_with_another_seed_is_refused(tiny):
    state = tiny(seed=1).train_dataloader().state_dict()
    with pytest.raises(ValueError, match="seed must be 1, as in the checkpoint"):
        EpisodeLoader(tiny(seed=2), "train", 3, 8).load_state_dict(state)


@pytest.mark.parametrize("fresh", [False, True])
def test_processes_play_the_trajectories_that_one_process_would(fresh):
    def share(rank, world):
        data = BanditDataModule(num_arms=5, dim=3, trajectories=8, fresh_problems=fresh)
        data.trainer = types.SimpleNamespace(global_rank=rank, world_size=world)
        return data.episode("train", 0, 8).problem

    whole, parts = share(0, 1), [share(rank, 4) for rank in range(4)]
    assert torch.cat([part.ids for part in parts]).equal(whole.ids)
    assert torch.cat([part.means for part in parts]).equal(whole.means)
    with pytest.raises(ValueError, match="trajectories must be a multiple of the number of processes, 3, got 8"):
        share(0, 3)


def test_one_episode_is_the_training_episode_in_every_stage(tiny):
    data = tiny(one_episode=True, eval_trajectories=99)
    train, validate = next(iter(data.train_dataloader())), next(iter(data.val_dataloader()))
    assert train.noise_seed == validate.noise_seed
    assert train.problem.means.equal(validate.problem.means)
    assert data.episode("train", 3, 8).action_seed == train.action_seed


def test_a_data_module_can_be_printed():
    text = str(BanditDataModule(dim=5, trajectories=4))
    assert text == "BanditDataModule(trajectories=4, num_steps=100, eval_trajectories=256, one_episode=False, seed=0)"
