"""The scripts run at small sizes and write what they promise."""

import importlib.util
import os
from pathlib import Path

import pytest
import torch

from torch_softucb.policies.beta import network as betas
from torch_softucb.policies.beta.summary import SummaryBeta
from torch_softucb.recommend import read_log

ROOT = Path(__file__).parent.parent


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_demo(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    demo = _load(ROOT / "scripts" / "demo.py")
    demo.main(["--steps", "3", "--trajectories", "4", "--problems", "6", "--horizon", "40", "--dim", "3", "--out", "plots"])
    shown = capsys.readouterr().out
    for name in (
        "SoftUCB, learned beta",
        "SoftUCB online",
        "LinUCB",
        "LinTS",
        "epsilon-greedy",
        "regret.png",
        "tensorboard --logdir",
    ):
        assert name in shown
    assert (tmp_path / "plots" / "regret.png").stat().st_size > 10_000
    assert list((tmp_path / "lightning_logs").glob("version_0/events*"))


def test_help_helps(capsys):
    with pytest.raises(SystemExit, match="0"):
        _load(ROOT / "scripts" / "demo.py").main(["--help"])
    assert "same noise" in capsys.readouterr().out


@pytest.mark.skipif("SOFTUCB_DATA" not in os.environ, reason="SOFTUCB_DATA is not set: no MovieLens")
def test_recommend(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recommend = _load(ROOT / "scripts" / "recommend.py")
    small = ["--rounds", "4", "--epochs", "1", "--candidates", "6", "--delay", "1", "--journal", "log", "--out", "plots"]
    results = recommend.main(small)["new users"]
    assert len(results) == 15
    assert all(regret.shape == (4, 472) and (regret >= -1e-6).all() for regret, _ in results.values())
    shown = capsys.readouterr().out
    assert "SoftUCB, learned beta" in shown
    assert (tmp_path / "plots" / "recommend.png").stat().st_size > 10_000
    log = read_log(tmp_path / "log")
    assert len(log.id) == 4 * 472
    assert len(log.rewarded.id) == 3 * 472
    assert len([*tmp_path.glob("lightning_logs/recommend/version_0/new_users/*/events*")]) == 15


@pytest.mark.skipif("SOFTUCB_DATA" not in os.environ, reason="SOFTUCB_DATA is not set: no MovieLens")
def test_recommend_new_films(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["--scenario", "cold-items", "--requests", "6", "--histories", "8", "--out", "plots"]
    panels = _load(ROOT / "scripts" / "recommend.py").main(small)
    assert [*panels] == ["new films only", "old and new films"]
    for results in panels.values():
        assert all(regret.shape == (6, 8) and (regret >= -1e-6).all() for regret, _ in results.values())
    assert "regret per history of 6 requests" in capsys.readouterr().out
    assert (tmp_path / "plots" / "recommend.png").stat().st_size > 10_000


def test_the_readmes_recommender_runs_as_printed_and_is_short(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    code = text.split("## Embedding in a recommender")[1].split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    names: dict = {}
    exec(code, names)
    assert names["head"].policy.state.num_observations.sum() == 2
    names["log"].close()
    again = names["SoftUCBHead"](
        names["Towers"](), names["SoftUCBPolicy"].auto(17, pooled=True), intercept=True, normalise=True
    )
    names["restart"](again, "decisions", "head.pt")
    assert again.policy.statistics.equal(names["policy"].statistics)
    assert names["read_log"]("decisions").reward.tolist() == [1.0, 0.0]


@pytest.mark.slow
def test_pretrain_writes_what_pretrained_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "some" / "network.safetensors"
    small = ["--steps", "2", "--trajectories", "16", "--horizon", "10", "20", "--drifting", "0.5", "--out", str(out)]
    made = _load(ROOT / "scripts" / "pretrain.py").main(small)
    assert "by python scripts/pretrain.py --steps 2" in capsys.readouterr().out
    monkeypatch.setattr(betas, "PRETRAINED", out)
    read = betas.SituationBeta.pretrained(horizon=77)
    assert read.horizon == 77
    for one, other in zip(made.parameters(), read.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
def test_pretrain_auto_writes_weights_only_if_no_number_is_as_good(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SOFTUCB_DATA", str(tmp_path))
    script, out = _load(ROOT / "scripts" / "pretrain_auto.py"), tmp_path / "auto.safetensors"
    monkeypatch.setattr(script, "table_mistakes", lambda weights, **_: abs(weights.values["separate_arms"] - 0.3))
    small = ["--members", "2", "--trajectories", "16", "--sweeps", "1", "--out", str(out)]
    for better in (False, True):

        def regret(make, _, better=better):
            beta = make(7)
            if isinstance(beta, float):
                return 1.0 if better else 0.0
            return (
                0.5 if beta.linear.weight[0, 7].item() == pytest.approx(0.45) else 0.1
            )  # the packaged one, or the found one

        monkeypatch.setattr(script, "family_regret", regret)
        script.main(small)
        assert out.exists() == better
    printed = capsys.readouterr().out
    assert "A number or the packaged module is as good: nothing was written." in printed
    assert "by python scripts/pretrain_auto.py --members 2" in printed
    module, about = SummaryBeta.load(out, horizon=7)
    assert module.horizon == 7
    assert module.linear.weight[0, 7].item() == pytest.approx(0.3)
    assert 0.5 < float(about["delta"]) < 1


def test_pretrain_auto_needs_the_tables(monkeypatch):
    monkeypatch.delenv("SOFTUCB_DATA", raising=False)
    with pytest.raises(SystemExit):
        _load(ROOT / "scripts" / "pretrain_auto.py").main([])
