"""Decisions from a folder, a sealed segment and a Parquet table: the same tensors, and clear errors."""

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from tests.recommend.cases import fill, head
from torch_softucb import synthetic_problem
from torch_softucb.from_logs.synthetic_log import epsilon_greedy_log
from torch_softucb.recommend import DecisionLog, LoggedDecisions, Place, log_records, read_decisions, read_log


@pytest.fixture
def folder(tmp_path, seeded):
    problem = synthetic_problem(num_problems=1, num_arms=4, dim=3, generator=seeded(0), dtype=torch.double)[0]
    epsilon_greedy_log(tmp_path / "log", problem, decisions=60, batch=10, features=True)
    return tmp_path / "log"


def _same(got, want, names=LoggedDecisions._fields):
    for name in names:
        torch.testing.assert_close(getattr(got, name), getattr(want, name), rtol=0, atol=0, equal_nan=True)


def test_folder_segment_and_table_are_one(folder, tmp_path):
    want = read_log(folder)
    _same(read_decisions(folder), want)
    _same(read_decisions(folder / "00000001.decisions.parquet"), want)
    table = pd.read_parquet(folder / "00000001.decisions.parquet")
    table["reward"] = want.reward.tolist()
    table.to_parquet(tmp_path / "flat.parquet")
    _same(read_decisions(tmp_path / "flat.parquet"), want)
    table["features"] = [[row[i : i + 3] for i in range(0, 12, 3)] for row in table["features"]]  # nested
    table[["x", "arm", "propensity", "reward", "features"]].to_parquet(tmp_path / "nested.parquet")
    got = read_decisions(tmp_path / "nested.parquet")
    _same(got, want, ("x", "arm", "propensity", "reward", "features", "candidates", "bandit", "position"))
    assert got.id.tolist() == list(range(60))


def test_rewards_that_came_in_a_later_segment_are_found(tmp_path, seeded):
    problem = synthetic_problem(num_problems=1, num_arms=4, dim=3, generator=seeded(0))[0]
    epsilon_greedy_log(tmp_path, problem, decisions=20, batch=10)
    rewards = pq.read_table(tmp_path / "00000001.rewards.parquet")
    pq.write_table(rewards.slice(0, 5), tmp_path / "00000001.rewards.parquet")
    pq.write_table(rewards.slice(5), tmp_path / "00000002.rewards.parquet")
    assert not read_decisions(tmp_path / "00000001.decisions.parquet").reward.isnan().any()


def test_what_is_no_log_is_named(folder, tmp_path):
    with pytest.raises(ValueError, match="nothing is not there; give a decision log's folder"):
        read_decisions(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"holds rewards; give the .decisions.parquet file next to it"):
        read_decisions(folder / "00000001.rewards.parquet")
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        read_decisions(tmp_path / "text.parquet")
    (folder / "00000001.rewards.parquet").unlink()
    with pytest.raises(ValueError, match="got none named reward"):
        read_decisions(folder / "00000001.decisions.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no decision in"):
        read_decisions(tmp_path / "empty")


def test_records_after_a_place(tmp_path):
    with DecisionLog(tmp_path) as log:
        fill(log, head(), steps=3)
    assert [kind for kind, _ in log_records(tmp_path, Place(1, 3))] == ["rewards", "decisions", "rewards"]
