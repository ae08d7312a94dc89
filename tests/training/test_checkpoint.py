"""kill -9: at any moment of a run, and at any moment of a save."""

import os
import random
import signal
import subprocess
import sys
import time

import lightning as L
import pytest
import torch

from torch_softucb import ScheduleBeta, SituationBeta, SoftUCBPolicy
from torch_softucb.checked_files import add_checksum, save_checked
from torch_softucb.training import AtomicCheckpointIO, Family, FamilyDataModule, SoftUCBMeta, SoftUCBOffline
from torch_softucb.training.checkpoint import CheckedModule

RUN = """
import logging, sys, time, torch, lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
from torch_softucb.training import *
from torch_softucb.training.trainer import quiet
quiet(); logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
kind, folder, resume, slow = sys.argv[1], sys.argv[2], sys.argv[3] or None, float(sys.argv[4])

class Curve(L.Callback):
    def on_train_batch_end(self, trainer, pl_module, *_):
        with open(folder + "/curve", "a") as file:
            print(trainer.global_step, pl_module.policy.raw_beta.detach().double().flatten().tolist(), file=file, flush=True)
        time.sleep(slow)

data = {"num_arms": 6, "dim": 3, "trajectories": 8, "num_steps": 20, "fresh_problems": True}
if kind == "offline":
    adam = lambda p: torch.optim.Adam(p, lr=0.05)
    model, data = SoftUCBOffline(dim=3, horizon=16, optimizer=adam), BanditDataModule(**data)
else:
    eta = "auto" if kind == "online_auto" else 1.0
    model = SoftUCBOnline(num_trajectories=8, dim=3, horizon=60, rounds_per_step=3, coldness="lagged", eta=eta)
    data = BanditDataModule(**data, one_episode=True)
keep = ModelCheckpoint(dirpath=folder, filename="last", every_n_train_steps=3, enable_version_counter=False)
trainer = trainer_for(folder, logger=False, enable_progress_bar=False, limit_val_batches=0, callbacks=[keep, Curve()])
trainer.fit(model, datamodule=data, ckpt_path=resume, weights_only=True)
"""


def _start(kind, folder, resume="", slow=0.0):
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, "-c", RUN, kind, str(folder), str(resume), str(slow)])


def _curve(folder):
    return dict(line.split(" ", 1) for line in (folder / "curve").read_text().splitlines())


@pytest.mark.long
@pytest.mark.parametrize("kind", ["offline", "online", "online_auto"])
def test_a_killed_run_resumed_ends_bit_identical(kind, tmp_path):
    whole = tmp_path / "whole"
    assert _start(kind, whole).wait(120) == 0
    cut = tmp_path / "cut"
    process = _start(kind, cut, slow=0.3)
    while not (cut / "curve").exists() or len(_curve(cut)) < 8:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    seen = len(_curve(cut))
    assert seen < 20
    saved = torch.load(cut / "last.ckpt", weights_only=True)
    assert saved["global_step"] <= seen
    assert saved["loops"]["fit_loop"]["state_dict"]["combined_loader"] == [{"seed": 0, "position": saved["global_step"]}]
    assert _start(kind, cut, resume=cut / "last.ckpt").wait(120) == 0
    want, got = _curve(whole), _curve(cut)
    assert len(want) == len(got) == 20
    assert got == want


@pytest.mark.long
@pytest.mark.parametrize("other_filesystem", [False, True])
def test_100_kills_during_the_save_leave_a_whole_file(other_filesystem, tmp_path, monkeypatch):
    if other_filesystem:
        if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev:
            pytest.skip("no second filesystem here")
        monkeypatch.setenv("TMPDIR", "/dev/shm")
    path, io, rng = tmp_path / "last.ckpt", AtomicCheckpointIO(), random.Random(0)

    def numbered(number):
        weights = torch.full((20_000,), float(number))
        return {"pytorch-lightning_version": "2.6.6", "state_dict": {"weights": weights}, "number": number}

    io.save_checkpoint(numbered(-1), path)
    before, kills = -1, 0
    while kills < 100 or (before <= 20 and kills < 2000):  # on a busy machine few saves come to their end in 20 ms
        kills += 1
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)  # a forked child has no worker threads
            while True:
                before += 1
                io.save_checkpoint(numbered(before), path)
        time.sleep(rng.uniform(0.0, 0.02 + 1e-4 * kills))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        state = io.load_checkpoint(path)
        assert (state["state_dict"]["weights"] == state["number"]).all()
        assert state["number"] >= before
        before = state["number"]
    assert before > 20
    io.save_checkpoint({"number": 0}, path)
    assert [p.name for p in tmp_path.iterdir()] == ["last.ckpt"]


def test_a_file_cut_short_is_named(tmp_path):
    path = tmp_path / "last.ckpt"
    io = AtomicCheckpointIO()
    io.save_checkpoint({"weights": torch.zeros(1000)}, path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match=r"last.ckpt: cannot be read .*cut short or not a checkpoint"):
        io.load_checkpoint(path)
    with pytest.raises(ValueError, match="cannot be read"):
        io.load_checkpoint(tmp_path / "none.ckpt")


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "trapped"),))

    torch.save({"x": Trap()}, tmp_path / "bad.ckpt")
    with pytest.raises(ValueError, match="cannot be read"):
        AtomicCheckpointIO().load_checkpoint(tmp_path / "bad.ckpt", weights_only=False)
    assert not (tmp_path / "trapped").exists()


def test_a_policy_alone_saves_and_loads_in_plain_torch(tmp_path):
    policy = SoftUCBPolicy(3, beta_init=0.4)
    policy.update(torch.randn(5, 3), torch.randn(5))
    torch.save(policy.state_dict(), tmp_path / "policy.pt")
    other = SoftUCBPolicy(3)
    other.load_state_dict(torch.load(tmp_path / "policy.pt", weights_only=True))
    arms = torch.randn(4, 3)
    assert other(arms).probs.equal(policy(arms).probs)


class _Keep(L.Callback):
    """A checkpoint in the middle, written where ModelCheckpoint writes it."""

    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 3:
            trainer.save_checkpoint(self.path, weights_only=False)


def _auto():
    return SoftUCBOffline(dim=3, horizon=12, eta="auto")


def _differences():
    return SoftUCBOffline(dim=3, horizon=12, coldness="smooth", estimator="common_random_numbers")


def _schedule():
    kind = {"coldness": "smooth", "estimator": "trajectory", "learn_delta": True}
    return SoftUCBOffline(dim=3, horizon=12, beta_init=ScheduleBeta(12), **kind)


def _family():
    return SoftUCBMeta(beta=SituationBeta(horizon=12))


@pytest.mark.parametrize("make", [_auto, _differences, _schedule, _family])
def test_resumed_learning_goes_on_with_the_next_batch_rate_and_eta(make, tiny, fit, tmp_path):
    ends = []
    for resume in (None, tmp_path / "middle.ckpt"):
        torch.manual_seed(0 if resume is None else 1)
        data = tiny(fresh_problems=True)
        if make is _family:
            sizes = {"num_arms": (3, 6), "dim": (2, 4), "horizon": (10, 20)}
            data = FamilyDataModule(family=Family(**sizes), trajectories=8, num_steps=6, eval_members=1, eval_trajectories=8)
        model = make()
        fit(model, data, callbacks=[_Keep(tmp_path / "middle.ckpt")] if resume is None else [], resume=resume)
        ends.append({name: value.clone() for name, value in model.state_dict().items()})
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def _saved(tiny, fit, path):
    model = SoftUCBOffline(dim=3, horizon=12)
    fit(model, tiny(num_steps=2)).save_checkpoint(path, weights_only=False)
    return torch.load(path, weights_only=True)  # plain torch reads it


def test_a_checkpoint_of_plain_lightning_is_refused_until_it_gets_a_checksum(tiny, fit, tmp_path):
    torch.save(_saved(tiny, fit, tmp_path / "a.ckpt"), tmp_path / "plain.ckpt")
    for load in (AtomicCheckpointIO().load_checkpoint, SoftUCBOffline.load_from_checkpoint):
        with pytest.raises(ValueError, match=r"plain.ckpt: cannot be read \(it does not end with a checksum"):
            load(tmp_path / "plain.ckpt")
    add_checksum(tmp_path / "plain.ckpt")
    again = SoftUCBOffline.load_from_checkpoint(tmp_path / "plain.ckpt")
    assert again.policy.beta == SoftUCBOffline.load_from_checkpoint(tmp_path / "a.ckpt").policy.beta
    super(CheckedModule, SoftUCBOffline).load_from_checkpoint(tmp_path / "a.ckpt", weights_only=True)  # Lightning's own


def _in_state(name, value):
    return lambda saved: saved["state_dict"].update({name: value(saved["state_dict"][name])})


WRONG = {
    "beta NaN": (_in_state("policy.raw_beta", lambda beta: beta * float("nan")), "raw_beta must be finite"),
    "V negative": (_in_state("policy.statistics", lambda rows: -rows), "statistics are impossible"),
    "statistics of integers": (_in_state("policy.statistics", lambda rows: rows.long()), "must be torch.float64"),
    "played beta NaN": (_in_state("played_beta", lambda beta: beta * float("nan")), "played_beta must be finite"),
    "no hyperparameters": (lambda saved: saved.pop("hyper_parameters"), "dim must "),
    "huge dim": (lambda saved: saved["hyper_parameters"].update(dim=20_000), "dim must "),
    "state is a list": (lambda saved: saved.update(state_dict=[1]), "must be dicts by name, got list"),
    "state holds numbers": (_in_state("played_beta", float), "'played_beta' in state_dict must be a tensor, got float"),
    "a class elsewhere": (
        lambda saved: saved["hyper_parameters"].update(optimizer={"class_path": "antigravity.Fly"}),
        "names the class 'antigravity.Fly', and would import it",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_impossible_checkpoint_is_refused_by_name_and_changes_nothing(case, tiny, fit, tmp_path):
    change, match = WRONG[case]
    saved = _saved(tiny, fit, tmp_path / "a.ckpt")
    change(saved)
    save_checked(tmp_path / "wrong.ckpt", saved)
    with pytest.raises(ValueError, match=f"wrong.ckpt: .*{match}"):
        SoftUCBOffline.load_from_checkpoint(tmp_path / "wrong.ckpt")
    model = SoftUCBOffline(dim=3, horizon=12)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=f"wrong.ckpt: .*{match}"):
        fit(model, tiny(num_steps=4), resume=tmp_path / "wrong.ckpt")
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())


def test_a_family_checks_its_checkpoints_too(tmp_path):
    model = SoftUCBMeta(beta=SituationBeta(horizon=12))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    state["beta.linear.bias"].fill_(float("nan"))
    save_checked(tmp_path / "nan.ckpt", {"pytorch-lightning_version": "2.6.6", "state_dict": state})
    with pytest.raises(ValueError, match=r"nan.ckpt: SoftUCBMeta: beta.linear.bias must be finite"):
        SoftUCBMeta.load_from_checkpoint(tmp_path / "nan.ckpt")
