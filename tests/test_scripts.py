import importlib.util
from pathlib import Path

import pytest

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
