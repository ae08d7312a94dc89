"""Decisions from a folder, from a sealed segment and from any Parquet table: the same tensors, and named errors."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from torch_softucb import synthetic_problem
from torch_softucb.from_logs.synthetic_log import epsilon_greedy_log
from torch_softucb.recommend import LoggedDecisions, read_decisions, read_log


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


def test_lists_of_any_kind_and_length(tmp_path):
    x = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), 2)
    features = pa.array([[[1.0, 2.0], [0.0, 0.0], [5.0, 6.0]], [[3.0, 4.0]]], pa.list_(pa.list_(pa.float32())))
    table = {"x": x, "arm": [0, 0], "propensity": [0.5, 1.0], "reward": [None, 2.0], "features": features}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    log = read_decisions(tmp_path / "a.parquet")
    assert log.x.tolist() == [[1, 2], [3, 4]]
    assert log.features.shape == (2, 3, 2)
    assert log.candidates.tolist() == [[0, 1, 2], [0, -1, -1]]
    assert log.mask.tolist() == [[True, True, True], [True, False, False]]
    assert log.reward.isnan().tolist() == [True, False]
    assert len(log.rewarded.x) == 1
    assert log.x.dtype == log.features.dtype == torch.double


def test_a_table_s_rewards_are_its_own_though_ids_repeat(tmp_path):
    rows = GOOD | {"id": [7, 7]}  # items of one slate
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    assert read_decisions(tmp_path / "a.parquet").reward.tolist() == [1.0, 0.0]


def test_rewards_that_came_in_a_later_segment_are_found(tmp_path, seeded):
    problem = synthetic_problem(num_problems=1, num_arms=4, dim=3, generator=seeded(0))[0]
    epsilon_greedy_log(tmp_path, problem, decisions=20, batch=10)
    rewards = pq.read_table(tmp_path / "00000001.rewards.parquet")
    pq.write_table(rewards.slice(0, 5), tmp_path / "00000001.rewards.parquet")
    pq.write_table(rewards.slice(5), tmp_path / "00000002.rewards.parquet")
    assert not read_decisions(tmp_path / "00000001.decisions.parquet").reward.isnan().any()


GOOD = {"x": [[1.0, 0.0], [0.0, 1.0]], "arm": [0, 1], "propensity": [0.5, 0.5], "reward": [1.0, 0.0]}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"propensity": None}, "must have the columns x, arm, propensity, reward, got none named propensity among x, arm"),
        ({"reward": None}, "got none named reward .* or give the folder of a DecisionLog"),
        ({"propensity": [0.5, 1.5]}, r"propensity must be in \(0, 1\], got 1.5 in row 1"),
        ({"propensity": [0.5, 0.0]}, r"propensity must be in \(0, 1\], got 0.0 in row 1"),
        ({"propensity": [0.5, None]}, "column propensity must have a number everywhere, got 1 nulls"),
        ({"reward": [None, None]}, "no decision has a reward, of 2"),
        ({"reward": [1.0, float("inf")]}, "reward must be finite, got an infinite one in row 1"),
        ({"reward": ["good", "bad"]}, "column reward must hold numbers, got (large_)?string; cast it"),
        ({"arm": [0.0, 1.0]}, "column arm must hold whole numbers, got double"),
        ({"x": [1.0, 2.0]}, "column x must hold lists of numbers, got double; join its parts"),
        ({"x": [[1.0], [1.0, 2.0]]}, r"features of one length, got \[1, 2\]"),
        ({"x": [[1.0, float("nan")], [1.0, 2.0]]}, "x must be finite, got 1 NaN"),
        ({"x": [[1.0, 2.0], None]}, "column x must have a list in every row, got 1 nulls"),
        ({"features": [[1.0, 2.0, 3.0], [1.0, 2.0]]}, "features must have 2 numbers, as x has, .* got 3 in row 0"),
        ({"features": [[1.0] * 4] * 2, "candidates": [[1, 2, 3]] * 2}, "must have the same K, got 3 and 2"),
        ({name: [] for name in GOOD}, "at least one decision is needed"),
    ],
)
def test_bad_tables_are_named(change, match, tmp_path):
    rows = {name: values for name, values in (GOOD | change).items() if values is not None}
    if rows["x"]:
        pq.write_table(pa.table(rows), tmp_path / "bad.parquet")
    else:
        kinds = [("x", pa.list_(pa.float64())), ("arm", pa.int64()), ("propensity", pa.float64()), ("reward", pa.float64())]
        pq.write_table(pa.schema(kinds).empty_table(), tmp_path / "bad.parquet")
    with pytest.raises((ValueError, TypeError), match=match):
        read_decisions(tmp_path / "bad.parquet")


def test_what_is_no_log_is_named(folder, tmp_path):
    with pytest.raises(ValueError, match="nothing is not there; give a decision log's folder"):
        read_decisions(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"holds rewards; give the .decisions.parquet file beside it"):
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
