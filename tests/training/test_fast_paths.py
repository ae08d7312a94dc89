"""Training plays its rounds as it is told to: the same beta, to rounding."""

import pytest
import torch

from torch_softucb.cli import main
from torch_softucb.training import SoftUCBOffline, SoftUCBOnline

pytest.importorskip("ninja", reason="needs ninja, and a C++ compiler")


@pytest.mark.parametrize("compile", ["native", pytest.param(True, marks=pytest.mark.long)])
def test_offline(compile, fit, tiny):
    betas = []
    for mode in (False, compile):
        model = SoftUCBOffline(dim=3, horizon=32, compile=mode)
        fit(model, tiny())
        betas.append(model.mean_beta)
    assert betas[1] == pytest.approx(betas[0], abs=1e-5)  # float32
    assert betas[0] != 1.0


@pytest.mark.parametrize("compile", ["native", pytest.param(True, marks=pytest.mark.long)])
def test_online(compile, fit, tiny):
    curves = []
    for mode in (False, compile):
        model = SoftUCBOnline(num_trajectories=8, dim=3, horizon=24, rounds_per_step=8, compile=mode)
        fit(model, tiny(one_episode=True, num_steps=3))
        assert model.rounds_played == 24
        curves.append((model.curve, model.policy.beta.detach()))
    for eager, fast in zip(*curves, strict=True):
        torch.testing.assert_close(fast, eager, atol=1e-3, rtol=0)  # float32, and 24 steps of beta in a row


def test_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["--data.trajectories", "16", "--data.num_steps", "2", "--data.eval_trajectories", "16"]
    offline = "torch_softucb.training.SoftUCBOffline"
    small = ["--data", "torch_softucb.training.BanditDataModule", *small]
    main(["--model", offline, "--model.init_args.horizon", "16", "--model.init_args.compile", "native", *small])
    (config,) = tmp_path.rglob("config.yaml")
    assert "compile: native" in config.read_text()


@pytest.mark.parametrize("kind", [SoftUCBOffline, SoftUCBOnline])
def test_unknown_way(kind):
    with pytest.raises(ValueError, match=f"{kind.__name__}: compile must be False, True .* or 'native'"):
        kind(compile="cuda")
