"""Training on problems that the user provides: who plays what in which stage, from Python and from files."""

import types

import numpy as np
import pytest
import torch

from torch_softucb import BanditProblem, contextual_problem, synthetic_problem
from torch_softucb.cli import main
from torch_softucb.errors import DataError
from torch_softucb.training import ProblemDataModule, SoftUCBOffline, SoftUCBOnline
from torch_softucb.training.problem_data import split_rows

SIZES = {"trajectories": 8, "num_steps": 2, "eval_trajectories": 4}


def _problem(count, dim=3):
    problem = synthetic_problem(num_problems=count, num_arms=4, dim=dim, generator=torch.Generator().manual_seed(0))
    return problem


def _bernoulli():
    items = torch.rand(4, 3, generator=torch.Generator().manual_seed(0))
    return contextual_problem(items, means=torch.full((2, 4), 0.5), candidates=2, reward="bernoulli")


def _rows(problem, played):
    """Which of the given problems each trajectory plays."""
    return [int((problem.means == means).all(-1).nonzero()) for means in played.means]


@pytest.mark.parametrize("count", [3, 4, 10, 101])
@pytest.mark.parametrize("held_out", [0.01, 0.2, 0.49])
def test_stages_share_no_problem(count, held_out):
    rows = split_rows(count, held_out=held_out, seed=1)
    assert sorted(torch.cat(list(rows.values())).tolist()) == list(range(count))
    assert len(rows["validate"]) == len(rows["test"]) >= 1
    assert len(rows["train"]) >= 1
    assert not torch.equal(*(split_rows(101, held_out=held_out, seed=seed)["train"] for seed in (1, 2)))


@pytest.mark.parametrize(("count", "held_out"), [(1, 0.2), (2, 0.2), (10, 0.0)])
def test_with_few_problems_every_stage_has_all(count, held_out):
    rows = split_rows(count, held_out=held_out, seed=1)
    assert all(sorted(each.tolist()) == list(range(count)) for each in rows.values())


def test_training_plays_all_its_problems_equally_often_with_new_noise():
    problem = _problem(10)
    data = ProblemDataModule(problem=problem, **SIZES | {"num_steps": 3})
    first, second, third = data.train_dataloader()
    played = _rows(problem, first.problem) + _rows(problem, second.problem) + _rows(problem, third.problem)
    counts = np.bincount(played, minlength=10)
    assert sorted(counts) == [0] * 4 + [4] * 6  # 24 trajectories of 6 problems
    for episode in (first, second):
        assert episode.problem.ids.tolist() == list(range(8))  # copies of a problem have different noise
    assert first.noise_seed != second.noise_seed
    held_out = [set(_rows(problem, next(iter(loader())).problem)) for loader in (data.val_dataloader, data.test_dataloader)]
    assert held_out[0] | held_out[1] == set(np.flatnonzero(counts == 0))
    assert not held_out[0] & held_out[1]


def test_processes_play_the_trajectories_that_one_process_would():
    def share(rank, world):
        data = ProblemDataModule(problem=_problem(10), **SIZES)
        data.trainer = types.SimpleNamespace(global_rank=rank, world_size=world)
        return data.episode("train", 1, 8).problem

    whole, parts = share(0, 1), [share(rank, 4) for rank in range(4)]
    assert torch.cat([part.ids for part in parts]).equal(whole.ids)
    assert torch.cat([part.means for part in parts]).equal(whole.means)


def test_a_single_problem_keeps_its_arms_in_memory_once():
    problem = BanditProblem(torch.eye(4, 3), torch.arange(4.0), 0.2)
    data = ProblemDataModule(problem=problem, **SIZES)
    played = data.episode("train", 0, 8).problem
    assert played.shared_arms
    assert played.means.equal(problem.means.expand(8, 4))
    assert played.noise_std == 0.2
    assert ProblemDataModule(problem=problem, noise_std=0.7, **SIZES).episode("test", 0, 4).problem.noise_std == 0.7


def test_tensors_are_a_problem():
    problem = _problem(10)
    data = ProblemDataModule(arms=problem.arms, means=problem.means, noise_std=0.3, **SIZES)
    want = ProblemDataModule(problem=problem, noise_std=0.3, **SIZES)
    for one, two in ((each.episode("train", 0, 8).problem for each in (data, want)),):
        assert one.means.equal(two.means)
        assert one.arms.equal(two.arms)
        assert one.noise_std == two.noise_std == 0.3


def test_it_trains_and_validates_from_python(fit):
    model = SoftUCBOffline(dim=3, horizon=12)
    trainer = fit(model, ProblemDataModule(problem=_problem(10), **SIZES))
    assert model.mean_beta != 1.0
    for tag in ("policy/beta", "regret/cumulative", "validation/soft_ucb", "validation/lin_ts", "beta", "regret"):
        assert trainer.callback_metrics[tag].isfinite()
    assert model.curves["soft_ucb"].shape == (12, 4)
    trainer.test(model, ProblemDataModule(problem=_problem(10), **SIZES), verbose=False)
    assert trainer.callback_metrics["test/soft_ucb"] > 0


def test_it_learns_online(fit):
    data = ProblemDataModule(problem=_problem(10), one_episode=True, **SIZES)
    model = SoftUCBOnline(num_trajectories=8, dim=3, horizon=12, rounds_per_step=6)
    fit(model, data)
    assert model.rounds_played == 12
    assert torch.equal(data.episode("validate", 0, 8).problem.means, data.episode("train", 1, 8).problem.means)


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_the_command_line_trains_on_a_file_as_python_does(suffix, tmp_path, monkeypatch, fit, capsys):
    from safetensors.torch import save_file

    monkeypatch.chdir(tmp_path)
    problem = _problem(10)
    if suffix == "npz":
        np.savez("mine.npz", arms=problem.arms.numpy(), means=problem.means.numpy())
    else:
        save_file({"arms": problem.arms, "means": problem.means}, "mine.safetensors")
    sizes = [f"--data.{name}={value}" for name, value in SIZES.items()]
    command = ["--model=SoftUCBOffline", "--model.horizon=12", "--data=torch_softucb.training.ProblemDataModule", *sizes]
    trained = main([*command, f"--data.path=mine.{suffix}", "--data.noise_std=0.5"])
    model = SoftUCBOffline(dim=3, horizon=12)
    fit(model, ProblemDataModule(problem=problem, noise_std=0.5, **SIZES))
    assert trained.mean_beta == model.mean_beta != 1.0
    assert trained.final_regret == model.final_regret


def test_another_dim_than_the_policys_is_refused(fit):
    with pytest.raises(ValueError, match="SoftUCBOffline: policy has dim 5, data has 3"):
        fit(SoftUCBOffline(dim=5, horizon=12), ProblemDataModule(problem=_problem(10), **SIZES))


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({}, ValueError, "expected problem=, arms= with means=, or path=, got none"),
        ({"problem": _problem(3), "path": "a.npz"}, ValueError, "or path=, got problem= and path="),
        ({"arms": torch.eye(3)}, ValueError, "or path=, got arms="),
        ({"path": "a.npz", "means": torch.ones(3)}, ValueError, "or path=, got path= and means="),
        ({"arms": torch.eye(3), "means": torch.ones(3)}, ValueError, "noise_std must be given with arms"),
        ({"arms": torch.eye(3), "means": torch.ones(4), "noise_std": 0.5}, ValueError, "means"),
        ({"problem": _bernoulli(), "noise_std": 0.1}, ValueError, "noise_std goes with Gaussian rewards, got 0.1 with bern"),
        ({"path": "a.npz"}, ValueError, "noise_std must be given with path"),
        ({"path": "nowhere.npz", "noise_std": 0.5}, DataError, "nowhere.npz cannot be read"),
        ({"problem": _problem(3), "noise_std": -1.0}, ValueError, "noise_std must be in"),
        ({"problem": torch.eye(3)}, TypeError, "problem must be a BanditProblem, got Tensor"),
        ({"problem": _problem(3).repeat(2)}, ValueError, r"means .*\(K,\) or \(N, K\)"),
        ({"problem": _problem(3), "held_out": 0.5}, ValueError, r"held_out must be in \[0, 0.5\), got 0.5"),
        ({"problem": _problem(3), "trajectories": 0}, ValueError, "ProblemDataModule: trajectories must be at least 1"),
    ],
)
def test_wrong_arguments(arguments, error, match):
    with pytest.raises(error, match=match):
        ProblemDataModule(**arguments)
