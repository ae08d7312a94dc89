"""The command from a log to a policy and a report: a tiny run, what the report tells, errors in one line."""

import importlib.util
import re
from pathlib import Path

import pandas as pd
import pytest
import torch

from tests.from_logs.test_delays import write as write_delayed
from torch_softucb import synthetic_problem
from torch_softucb.from_logs.synthetic_log import epsilon_greedy_log
from torch_softucb.policies.serialization import load_policy

TINY = ["--horizon", "40", "--steps", "3", "--trajectories", "8", "--problems", "16", "--eager"]


@pytest.fixture
def script():
    path = Path(__file__).parents[2] / "scripts" / "learn_from_log.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_demo(script, tmp_path, capsys):
    found = script.main(["--demo", "--decisions", "600", "--out", str(tmp_path), *TINY])
    shown = capsys.readouterr().out
    for word in ("Learned beta", "LinUCB, Eq. 5", "LinUCB, same beta", "Reward over what was logged", "report.md"):
        assert word in shown
    report = (tmp_path / "report.md").read_text()
    for word in (
        "600 decisions, 1 bandit, 10 features",
        "always the same 50",
        "Noise: standard deviation 0.",
        "on 16 problems drawn",
        "what was logged, its first T decisions",
        "judged by the 300 later ones",
        "| difference |",
        "(regret.png)",
    ):
        assert word in report
    assert (tmp_path / "regret.png").stat().st_size > 10_000
    policy = load_policy(tmp_path / "policy.safetensors")
    assert float(policy.beta.detach()) == pytest.approx(found.betas[-1])
    assert policy.state.num_observations == 600
    with pytest.raises(SystemExit, match="2"):
        script.main(["--demo", "--out", str(tmp_path)])
    assert "is there already; remove it" in capsys.readouterr().err


def test_a_table_that_does_not_say_what_was_on_offer(script, tmp_path, capsys, seeded):
    x = torch.randn(200, 3, generator=seeded(0))
    rows = {"x": x.tolist(), "arm": [0] * 200, "propensity": [0.5] * 200}
    rows["reward"] = (x.sum(-1) + torch.randn(200, generator=seeded(1))).tolist()
    rows["reward"][7] = None
    pd.DataFrame(rows).to_parquet(tmp_path / "log.parquet")
    found = script.main([str(tmp_path / "log.parquet"), "--out", str(tmp_path), "--num-arms", "5", *TINY])
    assert found.value is None
    assert "not possible, the log has no candidates" in capsys.readouterr().out
    report = (tmp_path / "report.md").read_text()
    assert "199 decisions (1 without a reward are left out)" in report
    assert "5 rows of x drawn at random" in report
    assert "rests on simulation alone" in report


def test_estimated_propensities_are_marked(script, tmp_path, capsys, seeded):
    arms, arm = torch.eye(3), torch.arange(300) % 3
    reward = arm.float() + 0.3 * torch.randn(300, generator=seeded(0))
    rows = {"x": arms[arm].tolist(), "arm": arm.tolist(), "reward": reward.tolist()}
    pd.DataFrame(rows).to_parquet(tmp_path / "log.parquet")
    found = script.main([str(tmp_path / "log.parquet"), "--out", str(tmp_path), *TINY])
    assert found.value.estimated == "the frequency of each item"
    assert "propensities estimated, not logged" in " ".join(capsys.readouterr().out.split())
    assert "**Propensities estimated, not logged**, by the frequency of each item." in (tmp_path / "report.md").read_text()


def test_little_overlap_is_said(script, tmp_path, seeded):
    problem = synthetic_problem(num_problems=1, num_arms=20, dim=4, generator=seeded(0))[0]
    epsilon_greedy_log(tmp_path / "log", problem, decisions=400, epsilon=1.0)
    script.main([str(tmp_path / "log"), "--out", str(tmp_path), *TINY])
    assert "**Do not trust this interval**" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["nothing.parquet"], "learn_from_log: read_decisions: .*nothing.parquet is not there"),
        (["bad.parquet"], "learn_from_log: read_decisions: .*bad.parquet must have .* got none named arm among x, reward"),
        (["bad.parquet", "--demo"], "give either a log or --demo"),
        ([], "give either a log or --demo"),
        (["good.parquet", "--horizon", "0"], "learn_from_log: learn_from_log: horizon must be at least 1, got 0"),
        (["good.parquet", "--delta", "0.3"], r"SoftUCBPolicy: delta must be in \[0.5, 1\)"),
    ],
)
def test_errors_are_a_line(script, arguments, match, tmp_path, capsys, monkeypatch, seeded):
    monkeypatch.chdir(tmp_path)
    x = torch.randn(50, 2, generator=seeded(0))
    rows = {"x": x.tolist(), "arm": [0] * 50, "reward": (x.sum(-1) + torch.randn(50, generator=seeded(1))).tolist()}
    pd.DataFrame(rows).drop(columns="arm").to_parquet("bad.parquet")
    pd.DataFrame(rows | {"propensity": [0.5] * 50}).to_parquet("good.parquet")
    with pytest.raises(SystemExit, match="2"):
        script.main(arguments)
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.search(match, last)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.parquet", "good.parquet"]  # nothing was written


def test_delays_of_the_log(script, tmp_path, capsys, seeded):
    write_delayed(tmp_path / "log", 40, 3, seeded(0))
    command = [str(tmp_path / "log"), "--out", str(tmp_path), *TINY]
    logged, none = (script.main([*command, "--delay", delay]) for delay in ("logged", "0"))
    assert logged.betas != none.betas
    with pytest.raises(SystemExit, match="2"):
        script.main([str(tmp_path / "log" / "nothing"), "--delay", "logged", *TINY])


def test_help_helps(script, capsys):
    with pytest.raises(SystemExit, match="0"):
        script.main(["--help"])
    assert "off-policy evaluation on decisions that it did not learn from" in capsys.readouterr().out
