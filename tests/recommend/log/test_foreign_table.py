"""Parquet tables that another tool has written."""

import gc
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from torch_softucb.recommend import read_decisions
from torch_softucb.recommend.log import foreign_table
from torch_softucb.recommend.log.foreign_table import padded

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
        ({"arm": [0, None]}, "column arm must have a number everywhere, got 1 nulls"),
        ({"candidates": [[1, None], [1, 2]]}, "column candidates must have a number everywhere, got 1 nulls"),
        ({"candidates": [[0.5, 1.0], [1.0, 2.0]]}, "column candidates must hold whole numbers, got double"),
        ({"x": [["a", "b"], ["c", "d"]]}, "column x must hold numbers, got (large_)?string; cast it"),
        ({"x": [[[[1.0]]], [[[1.0]]]]}, "column x must hold numbers, got (large_)?list"),
        ({"features": [[[1.0, 2.0], None], [[1.0, 2.0]]]}, "column features must have a list in every row, got 1 nulls"),
        ({"features": [[1.0, 2.0], [1.0]]}, "features must have 2 numbers, as x has, .* got 1 in row 1"),
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


def _peak(call):
    """Return the peak of memory that Arrow and Python have allocated during a call."""
    gc.collect()
    tracemalloc.start()
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    try:
        call()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak + pool.bytes_allocated() - before


@pytest.mark.parametrize("bomb", ["one long list", "a long list of features", "many equal values", "long lists", "strings"])
def test_a_small_file_cannot_take_much_memory(bomb, tmp_path):
    rows, path = 20_000, tmp_path / "bomb.parquet"
    table = {"x": [[1.0]] * rows, "arm": [0] * rows, "propensity": [0.5] * rows, "reward": [1.0] * rows}
    if bomb == "one long list":
        table["candidates"] = [list(range(50_000))] + [[1]] * (rows - 1)
    elif bomb == "a long list of features":
        table["features"] = [[1.0] * 50_000] + [[1.0]] * (rows - 1)
    elif bomb == "long lists":
        table["x"] = [[0.0] * 10_000] * 1000
        table = {name: values[:1000] for name, values in table.items()}
    elif bomb == "many equal values":
        table = {name: values * 100 for name, values in table.items()}
    else:
        table["arm"] = ["a" * 1000] * rows
    pq.write_table(pa.table(table), path, compression="zstd")
    size = path.stat().st_size
    assert size < 2_000_000

    def read():
        with pytest.raises((ValueError, TypeError), match=r"bomb\.parquet of \d+ bytes takes|must hold numbers"):
            read_decisions(path)

    assert _peak(read) < 2 * size + 50_000_000


def test_max_bytes_lets_a_large_table_in(tmp_path):
    table = {"x": [[0.0] * 1000] * 4000, "arm": [0] * 4000, "propensity": [0.5] * 4000, "reward": [1.0] * 4000}
    pq.write_table(pa.table(table), tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(ValueError, match=r"pass max_bytes=\d+ if that is what you expect"):
        read_decisions(tmp_path / "a.parquet")
    assert read_decisions(tmp_path / "a.parquet", max_bytes=200_000_000).x.shape == (4000, 1000)


def test_lists_are_padded_at_their_end():
    got = padded(np.array([1, 2, 3, 4]), np.array([1, 0, 3]), -1)
    assert got.tolist() == [[1, -1, -1], [-1, -1, -1], [2, 3, 4]]
    assert padded(np.zeros(0), np.zeros(0, int), 0.0).shape == (0, 0)


def test_by_default_a_table_may_take_twice_the_size_of_its_file(tmp_path, monkeypatch, seeded):
    monkeypatch.setattr(foreign_table, "SPARE_BYTES", 0)
    x = torch.randn(2000, 8, dtype=torch.double, generator=seeded(0))
    table = {"arm": [0] * 2000, "propensity": [0.5] * 2000, "reward": [1.0] * 2000}
    pq.write_table(pa.table({"x": x.tolist()} | table), tmp_path / "random.parquet")
    assert read_decisions(tmp_path / "random.parquet").x.equal(x)
    pq.write_table(pa.table({"x": (0 * x).tolist()} | table), tmp_path / "zeros.parquet")
    with pytest.raises(ValueError, match=r"zeros\.parquet of \d+ bytes takes"):
        read_decisions(tmp_path / "zeros.parquet")


def test_a_wrong_page_checksum_is_noticed(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(GOOD), path, compression="none", use_dictionary=False, write_page_checksum=True)
    data = path.read_bytes()
    at = data.index(np.array([0.5, 0.5]).tobytes())  # the propensities
    path.write_bytes(data[:at] + np.array([0.25]).tobytes() + data[at + 8 :])
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read as Parquet"):
        read_decisions(path)
