"""trainer_for and the printed summary."""

import itertools

import lightning as L
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from torch.utils.data import DataLoader, IterableDataset

from torch_softucb import synthetic_problem
from torch_softucb.training import AtomicCheckpointIO, Dashboard, SoftUCBMeta, SoftUCBOffline, trainer_for
from torch_softucb.training.trainer import run_folder, summary


def test_defaults_and_overrides(tmp_path):
    trainer = trainer_for(tmp_path / "runs", max_epochs=3, enable_progress_bar=False)
    assert trainer.max_epochs == 3
    assert isinstance(trainer.logger, TensorBoardLogger)
    assert any(isinstance(callback, Dashboard) for callback in trainer.callbacks)
    assert isinstance(trainer.strategy.checkpoint_io, AtomicCheckpointIO)
    assert run_folder(trainer).startswith(str(tmp_path))
    assert run_folder(L.Trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False)) is None


def test_the_summary_compares_with_every_baseline(fit, tiny):
    model = SoftUCBOffline(dim=3, horizon=16)
    assert "not validated" in summary(model, None)
    assert "No log was written" in summary(model, None)
    fit(model, tiny(), logger=False)
    text = summary(model, "runs/version_0")
    assert text.count("times as much") == 4
    assert "tensorboard --logdir runs/version_0" in text
    assert f"regret {model.final_regret:.1f} over 16 rounds" in text


def test_the_dashboard_refuses_modules_whose_curves_it_does_not_know(fit, tiny):
    with pytest.raises(TypeError, match="Dashboard: expected SoftUCBOffline or SoftUCBOnline, got SoftUCBMeta"):
        fit(SoftUCBMeta(), tiny(), callbacks=[Dashboard()], logger=False)


@pytest.mark.parametrize(
    "wrap", [lambda p: p, lambda p: [p, p], lambda p: iter([p, p])], ids=["problem", "list", "iterator"]
)
def test_problems_are_served_without_a_data_module(wrap, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problem = synthetic_problem(num_problems=4, num_arms=5, dim=3)
    model = SoftUCBOffline(dim=3, horizon=5)
    trainer = trainer_for(limit_train_batches=2, enable_progress_bar=False)
    trainer.fit(model, wrap(problem))
    assert trainer.global_step == 2


def test_wrong_batches_are_refused_with_the_right_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problem = synthetic_problem(num_problems=4, num_arms=5, dim=3)
    trainer = trainer_for(enable_progress_bar=False)
    with pytest.raises(TypeError, match=r"a batch must be a BanditProblem or an Episode, got Tensor; use trainer\.fit"):
        trainer.fit(SoftUCBOffline(dim=3, horizon=5), [problem, torch.ones(3)])
    with pytest.raises(ValueError, match=r"means of shape \(B, K\)"):
        trainer.fit(SoftUCBOffline(dim=3, horizon=5), [problem[0]])
    for nothing in ([], iter([])):
        with pytest.raises(ValueError, match=r"expected at least one batch of problems, got none; use trainer\.fit"):
            trainer.fit(SoftUCBOffline(dim=3, horizon=5), nothing)
    with pytest.raises(TypeError, match=r"Trainer\.fit: expected problems, got int; use trainer\.fit\(module, problem\)"):
        trainer.fit(SoftUCBOffline(dim=3, horizon=5), 5)


def test_an_iterator_may_be_endless(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problem = synthetic_problem(num_problems=4, num_arms=5, dim=3)
    trainer = trainer_for(max_steps=3, enable_progress_bar=False)
    trainer.fit(SoftUCBOffline(dim=3, horizon=5), itertools.repeat(problem))
    assert trainer.global_step == 3
    with pytest.raises(ValueError, match=r"at most 1024 batches .* without max_steps, got more; use trainer_for\(max_steps"):
        trainer_for(enable_progress_bar=False).fit(SoftUCBOffline(dim=3, horizon=5), itertools.repeat(problem))


def test_a_loader_without_a_length(tmp_path, monkeypatch):
    class Endless(IterableDataset):
        def __iter__(self):
            return itertools.repeat(synthetic_problem(num_problems=4, num_arms=5, dim=3))

    monkeypatch.chdir(tmp_path)
    trainer = trainer_for(max_steps=3, enable_progress_bar=False)
    trainer.fit(SoftUCBOffline(dim=3, horizon=5), DataLoader(Endless(), batch_size=None))
    assert trainer.global_step == 3
    assert trainer.val_check_interval == 1.0
    given = trainer_for(max_steps=3, enable_progress_bar=False, val_check_interval=2)
    given.fit(SoftUCBOffline(dim=3, horizon=5), DataLoader(Endless(), batch_size=None))
    assert given.val_check_interval == 2
    with pytest.raises(TypeError, match=r"expected problems, got dict; use trainer\.fit"):
        trainer.fit(SoftUCBOffline(dim=3, horizon=5), {"a": synthetic_problem(num_problems=4, num_arms=5, dim=3)})
