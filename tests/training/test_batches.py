"""Plain problems as batches: reproducible seeds, every loader that a user would try, and errors that show the right call."""

import pytest
import torch
from torch.utils.data import DataLoader

from torch_softucb import synthetic_problem
from torch_softucb.learning.episode import stage_seed
from torch_softucb.training import Episode, Family, FamilyDataModule, SoftUCBMeta, SoftUCBOffline, SoftUCBOnline, trainer_for
from torch_softucb.training.batches import as_episode

QUICK = {"enable_progress_bar": False, "callbacks": [], "enable_checkpointing": False, "logger": False}


def _problem(count=8, dim=3, seed=0):
    return synthetic_problem(num_problems=count, num_arms=4, dim=dim, generator=torch.Generator().manual_seed(seed))


def _fit(model, loader, validation=None, **trainer_kwargs):
    trainer = trainer_for(**(QUICK | {"val_check_interval": 1.0} | trainer_kwargs))
    trainer.fit(model, loader, validation)
    return trainer


def test_seeds_depend_on_stage_number_and_rank():
    problem = _problem()
    keys = [(stage, number, rank) for stage in ("train", "validate", "test") for number in range(3) for rank in range(2)]
    made = [as_episode("f", problem, stage, number=number, rank=rank) for stage, number, rank in keys]
    assert len({seed for episode in made for seed in (episode.noise_seed, episode.action_seed)}) == 2 * len(keys)
    assert made[0] == as_episode("f", problem, "train", number=0)
    assert made[0].noise_seed == stage_seed(0, "train", "noise", 0)


def test_an_episode_stays_as_it_is():
    episode = Episode(_problem(), 1, 2, horizon=7)
    assert as_episode("f", episode, "train", number=5) is episode


def test_a_loader_of_problems_trains_as_the_same_episodes_do():
    problems = [_problem(seed=seed) for seed in range(2)]
    plain, explicit = SoftUCBOffline(dim=3, horizon=12), SoftUCBOffline(dim=3, horizon=12)
    _fit(plain, DataLoader(problems, batch_size=None), max_epochs=2)
    # two epochs of two problems: the numbers go on, so that the second epoch has new noise
    seeds = [[stage_seed(0, "train", stream, number) for stream in ("noise", "action")] for number in range(4)]
    episodes = [Episode(problems[number % 2], *seeds[number]) for number in range(4)]
    _fit(explicit, DataLoader(episodes, batch_size=None))
    assert plain.mean_beta == explicit.mean_beta != 1.0


def test_validation_covers_all_problems_of_its_loader():
    held_out = [_problem(seed=seed) for seed in (5, 6)]
    model = SoftUCBOffline(dim=3, horizon=12)
    trainer = _fit(model, DataLoader([_problem()], batch_size=None), DataLoader(held_out, batch_size=None))
    curves = [model.evaluate(as_episode("f", problem, "validate", number=i)) for i, problem in enumerate(held_out)]
    for name, curve in model.curves.items():
        assert torch.equal(curve, torch.cat([each[name] for each in curves], dim=1))
        wanted = torch.cat([each[name][-1] for each in curves]).mean()
        assert trainer.callback_metrics[f"validation/{name}"] == pytest.approx(float(wanted))


def test_online_continues_one_problem_with_the_same_noise():
    def run(steps, rounds):
        model = SoftUCBOnline(num_trajectories=8, dim=3, horizon=12, rounds_per_step=rounds)
        _fit(model, DataLoader([_problem()] * steps, batch_size=None))
        return model

    one, four = run(1, 12), run(4, 3)
    assert one.rounds_played == four.rounds_played == 12
    assert torch.equal(one.regrets, four.regrets)
    with pytest.raises(ValueError, match=r"number of trajectories of the data, \(5,\), got \(8,\)"):
        _fit(SoftUCBOnline(num_trajectories=8, dim=3, horizon=12), DataLoader([_problem(5)], batch_size=None))


@pytest.mark.parametrize(
    ("loader", "error", "match"),
    [
        (
            DataLoader(torch.zeros(4, 3), batch_size=2),
            TypeError,
            r"BanditProblem or an Episode, got Tensor; use .*DataLoader\(",
        ),
        ([_problem()[0]], ValueError, r"of shape \(B, K\).*got \(4,\); use .*ProblemDataModule\(problem="),
        ([[1.0], [2.0]], TypeError, r"got list; use .*DataLoader\(problems, batch_size=None\)"),
        (DataLoader([_problem(dim=5)], batch_size=None), ValueError, "SoftUCBOffline: policy has dim 3, data has 5"),
    ],
    ids=["tensor", "single problems", "list", "dim"],
)
def test_a_wrong_batch_shows_the_right_call(loader, error, match):
    model = SoftUCBOffline(dim=3, horizon=12)
    with pytest.raises(error, match=match):
        _fit(model, loader)
    assert model.mean_beta == 1.0


@pytest.mark.parametrize("batch", [_problem(), Episode(_problem(), 1, 2)], ids=["problem", "no_horizon"])
def test_meta_learning_needs_a_horizon(batch):
    with pytest.raises(TypeError, match=r"an Episode with a horizon, got .*; use FamilyDataModule"):
        _fit(SoftUCBMeta(), DataLoader([batch], batch_size=None))


def test_a_family_with_several_dims_names_the_trainer_that_learns_over_them():
    model, data = SoftUCBOffline(dim=3, horizon=12), FamilyDataModule(family=Family(dim=(3, 5)))
    with pytest.raises(ValueError, match=r"same number of features .* SoftUCBMeta"):
        trainer_for(**QUICK).fit(model, data)
