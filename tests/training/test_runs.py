"""Which run `last` means, what the folder shows after an interruption, and that all processes start alike."""

import atexit
import os

import pytest
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from torch_softucb.training import SoftUCBOffline, SoftUCBOnline, last_run, trainer_for
from torch_softucb.training._checks import check_same_start
from torch_softucb.training.runs import Run, join_restarted_group, leave_process_group, restarted_by_torchrun


class _Killed(Exception):
    pass


class _Interrupted(SoftUCBOffline):
    def on_train_batch_start(self, batch, batch_idx):
        if batch_idx == self.stop_at:
            raise _Killed


def _fit(model, data, **kind):
    trainer = trainer_for("runs", enable_progress_bar=False, accelerator="cpu", **kind)
    run = kind.get("run")
    trainer.fit(model, datamodule=data, ckpt_path=run and run.checkpoint, weights_only=True)
    return model


def _interrupt(tiny, stop_at):
    model = _Interrupted(dim=3, horizon=12)
    model.stop_at = stop_at
    with pytest.raises(_Killed):
        _fit(model, tiny())


@pytest.fixture
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_here")
def test_an_interrupted_run_goes_on_in_its_folder_with_one_curve(tiny):
    whole = _fit(SoftUCBOffline(dim=3, horizon=12), tiny())
    assert last_run("runs") is None
    _interrupt(tiny, 4)
    run = last_run("runs")
    assert run == Run(run.folder, run.folder / "checkpoints" / "last.ckpt", 4 * 8)
    again = _fit(SoftUCBOffline(dim=3, horizon=12), tiny(), run=run)
    assert torch.equal(again.policy.raw_beta, whole.policy.raw_beta)
    assert sorted(os.listdir("runs")) == ["version_0", "version_1"]
    assert last_run("runs") is None
    assert last_run("runs", finished=True).folder.name == "version_1"
    curves = []
    for folder in ("runs/version_0", "runs/version_1"):
        events = EventAccumulator(folder)
        events.Reload()
        curves.append([(row.step, row.value) for row in events.Scalars("policy/beta")])
    assert curves[1] == curves[0]


@pytest.mark.usefixtures("_here")
def test_steps_after_the_last_checkpoint_are_played_again_and_shown_once(tiny):
    model = _Interrupted(dim=3, horizon=12)
    model.stop_at = 5
    with pytest.raises(_Killed):
        _fit(model, tiny(), checkpoint_every=2)
    run = last_run("runs")
    assert run.position == 4 * 8
    _fit(SoftUCBOffline(dim=3, horizon=12), tiny(), run=run)
    events = EventAccumulator("runs/version_0")
    events.Reload()
    assert [row.step for row in events.Scalars("policy/beta")] == [8, 16, 24, 32, 40, 48]


@pytest.mark.usefixtures("_here")
def test_a_run_without_a_checkpoint_starts_again_in_its_folder(tiny):
    _interrupt(tiny, 0)
    run = last_run("runs")
    assert run.checkpoint is None
    assert run.logger_options == {"version": 0, "purge_step": 0}
    assert last_run("runs", accept=lambda folder: folder.name != "version_0") is None
    os.makedirs("runs/version_x")
    assert last_run("runs") == run
    os.makedirs("runs/version_10/checkpoints")
    open("runs/version_10/checkpoints/last.ckpt", "w").close()
    with pytest.raises(ValueError, match=r"version_10/checkpoints/last.ckpt"):
        last_run("runs")


@pytest.mark.usefixtures("_here")
def test_a_run_killed_after_its_last_checkpoint_is_validated_when_it_goes_on(tiny):
    whole = _fit(SoftUCBOffline(dim=3, horizon=12), tiny())
    again = _fit(SoftUCBOffline(dim=3, horizon=12), tiny(), run=last_run("runs", finished=True))
    assert again.final_regret == whole.final_regret


@pytest.mark.usefixtures("_here")
def test_online_runs_know_their_position(tiny):
    data = tiny(one_episode=True, num_steps=4)
    _fit(SoftUCBOnline(num_trajectories=8, dim=3, horizon=12, rounds_per_step=3), data)
    assert last_run("runs", finished=True).position == 12


def test_processes_that_start_from_other_checkpoints_are_refused():
    check_same_start("SoftUCBOffline", "a/last.ckpt", "a/last.ckpt", 1)
    with pytest.raises(ValueError, match=r"checkpoint of rank 0, a/last.ckpt, but rank 1 found none"):
        check_same_start("SoftUCBOffline", None, "a/last.ckpt", 1)


def test_only_restarted_workers_join_by_themselves(monkeypatch):
    assert not restarted_by_torchrun()
    join_restarted_group(DDPStrategy())  # not under torchrun: nothing happens
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert restarted_by_torchrun()
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("GROUP_WORLD_SIZE", "1")
    join_restarted_group(SingleDeviceStrategy())  # one process has nobody to join
    assert not torch.distributed.is_initialized()


def test_a_finished_run_leaves_its_process_group_at_exit(tmp_path, monkeypatch, tiny):
    monkeypatch.chdir(tmp_path)
    left = []
    monkeypatch.setattr(atexit, "register", lambda function, *args, **kwargs: left.append(function))
    _fit(SoftUCBOffline(dim=3, horizon=12), tiny())
    assert leave_process_group not in left  # a single process has no group
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        _fit(SoftUCBOffline(dim=3, horizon=12), tiny())
        assert leave_process_group in left
    finally:
        leave_process_group()
    assert not dist.is_initialized()
    leave_process_group()  # there is none
