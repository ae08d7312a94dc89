import importlib.util
import json
from pathlib import Path

import pytest
import torch

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


def test_bench(tmp_path, capsys):
    threads = torch.get_num_threads()
    bench = _load(ROOT / "benchmarks" / "rollout.py")
    bench.ROUNDS = 2
    bench.main(["--repeats", "1", "--batch", "8", "--limit", str(tmp_path / "none.c"), "--out", str(tmp_path / "b.json")])
    torch.set_num_threads(threads)
    assert "No ratio" in capsys.readouterr().out
    rows = json.loads((tmp_path / "b.json").read_text())["rows"]
    assert len(rows) == 12
    assert all(row["ns"] > 0 for row in rows)


def test_help_helps(capsys):
    with pytest.raises(SystemExit, match="0"):
        _load(ROOT / "scripts" / "demo.py").main(["--help"])
    assert "same noise" in capsys.readouterr().out
