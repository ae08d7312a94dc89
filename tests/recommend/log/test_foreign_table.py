"""Parquet tables that another tool has written."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from torch_softucb.recommend import read_decisions

GOOD = {"x": [[1.0, 0.0], [0.0, 1.0]], "arm": [0, 1], "propensity": [0.5, 0.5], "reward": [1.0, 0.0]}


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


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"propensity": None}, "must have the columns x, arm, propensity, reward, got none named propensity among x, arm"),
        ({"reward": None}, "got none named reward .* or give the folder of a DecisionLog"),
        ({"propensity": [0.5, 1.5]}, r"propensity must be in \(0, 1\], got 1.5 in row 1"),
        ({"propensity": [0.5, 0.0]}, r"propensity must be in \(0, 1\], got 0.0 in row 1"),
        ({"propensity": [0.5, None]}, "column propensity must have a number everywhere, got 1 nulls"),
        ({"reward": [None, None]}, "none of the 2 decisions has a reward"),
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
