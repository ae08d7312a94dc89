"""Single flipped bits and truncations: nothing is loaded with wrong numbers, and every refusal names the file."""

import pytest
import torch

from experiments.trust.flips import flips
from tests.recommend.cases import fill, head
from torch_softucb import SituationBeta, SoftUCBPolicy, load_policy, save_policy
from torch_softucb.policies.beta.network import PRETRAINED
from torch_softucb.recommend import DecisionLog, restart, save_checkpoint
from torch_softucb.training import AtomicCheckpointIO, SoftUCBOffline

SMALL = {"flips": 120, "truncations": 30, "seed": 0}


def _checkpoint(folder, tiny, fit):
    model = SoftUCBOffline(dim=3, horizon=12)
    fit(model, tiny(num_steps=2)).save_checkpoint(folder / "last.ckpt")
    return folder / "last.ckpt", lambda path: SoftUCBOffline.load_from_checkpoint(path).state_dict()


def _resumed(folder, tiny, fit):
    path, _ = _checkpoint(folder, tiny, fit)
    return path, lambda path: AtomicCheckpointIO().load_checkpoint(path)["state_dict"]


def _head(folder, tiny, fit):
    ours = head(users=20)
    with DecisionLog(folder / "log") as log:
        fill(log, ours, steps=2)
        save_checkpoint(folder / "head.pt", ours, log)

    def load(path):
        again = head(users=20)
        restart(again, folder / "log", path)
        return again.state_dict()

    return folder / "head.pt", load


def _policy(folder, tiny, fit):
    policy = SoftUCBPolicy(3)
    policy.update(torch.ones(3), torch.tensor(1.0))
    save_policy(folder / "policy.safetensors", policy)
    return folder / "policy.safetensors", lambda path: load_policy(path).state_dict()


def _network(folder, tiny, fit):
    (folder / "network.safetensors").write_bytes(PRETRAINED.read_bytes())
    return folder / "network.safetensors", lambda path: SituationBeta.load(path, horizon=9)[0].state_dict()


def _same(one, other):
    return one.keys() == other.keys() and all(value.equal(other[name]) for name, value in one.items())


@pytest.mark.parametrize("make", [_checkpoint, _resumed, _head, _policy, _network])
def test_every_flip_and_cut_is_refused_by_name(make, tiny, fit, tmp_path):
    path, load = make(tmp_path, tiny, fit)
    whole = path.read_bytes()
    assert flips(path, load, _same, **SMALL) == {"refused": 150, "harmless": 0, "wrong": 0, "badly_refused": 0}
    assert path.read_bytes() == whole


def test_the_outcomes_are_told_apart(tmp_path):
    """A reader that checks nothing, one that fails in its own words, one that ignores the file, one that names it."""
    path = tmp_path / "file"
    path.write_bytes(bytes(100))

    def foreign(path):
        if path.read_bytes() != bytes(100):
            raise KeyError("id")

    def unnamed(path):
        if path.read_bytes() != bytes(100):
            raise ValueError("damaged")

    def named(path):
        if path.read_bytes() != bytes(100):
            raise ValueError(f"{path}: damaged")

    expected = {lambda path: path.read_bytes(): "wrong", lambda path: 0: "harmless"}
    expected |= {foreign: "badly_refused", unnamed: "badly_refused", named: "refused"}
    for load, outcome in expected.items():
        assert flips(path, load, lambda a, b: a == b, **SMALL)[outcome] == 150
