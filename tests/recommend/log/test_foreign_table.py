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
        ({"arm": None}, "must have the columns x, arm, reward, got none named arm among x, propensity, reward"),
        ({"reward": None}, "got none named reward .* or give the folder of a DecisionLog"),
        ({"propensity": [0.5, 1.5]}, r"propensity must be in \(0, 1\], got 1.5 in row 1"),
        ({"propensity": [0.5, 0.0]}, r"propensity must be in \(0, 1\], got 0.0 in row 1"),
        ({"propensity": [0.5, None]}, "column propensity must have a number everywhere, got 1 nulls, the first in row 1"),
        ({"propensity": [None, None]}, "column propensity must have numbers, got none; leave the column out"),
        ({"propensity": [0.5, float("nan")]}, r"propensity must be in \(0, 1\], got NaN in row 1"),
        ({"arm": [0, None]}, "column arm must have a number everywhere, got 1 nulls"),
        (
            {"candidates": [[1, 3], [1, None]]},
            "column candidates must have a number everywhere, got 1 nulls, the first in row 1",
        ),
        ({"candidates": [[1, 2], []]}, "candidates must not be empty, got none in row 1; leave such rows out"),
        ({"candidates": [[1, 2], [-1, -1]]}, "candidates must not be empty, got none in row 1"),
        ({"candidates": [[1, 2], [1, -1]]}, "arm must be the position of a candidate, got 1 in row 1, which is padding"),
        ({"candidates": [[1], [1]]}, "arm must be the position of a candidate, below 1, got 1 in row 1"),
        ({"arm": [0, -1]}, "arm must be at least 0, got -1 in row 1"),
        ({"bandit": [0, -2]}, "bandit must be at least -1, got -2 in row 1"),
        ({"reward": [1.0, float("nan")]}, "reward must be a number, or null if it has not arrived, got NaN in row 1"),
        ({"candidates": [[0.5, 1.0], [1.0, 2.0]]}, "column candidates must hold whole numbers, got double"),
        ({"x": [["a", "b"], ["c", "d"]]}, "column x must hold numbers, got (large_)?string; cast it"),
        ({"x": [[[[1.0]]], [[[1.0]]]]}, "column x must hold numbers, got (large_)?list"),
        ({"features": [[[1.0, 2.0]], [[1.0, 2.0], None]]}, "features must have a list in every row, got 1 nulls, .* row 1"),
        ({"features": [[1.0, 2.0], [1.0]]}, "features must have 2 numbers, as x has, .* got 1 in row 1"),
        ({"reward": [None, None]}, "none of the 2 decisions has a reward"),
        ({"reward": [1.0, float("inf")]}, "reward must be finite, got an infinite one in row 1"),
        ({"reward": ["good", "bad"]}, "column reward must hold numbers, got (large_)?string; cast it"),
        ({"arm": [0.0, 1.0]}, "column arm must hold whole numbers, got double"),
        ({"x": [1.0, 2.0]}, "column x must hold lists of numbers, got double; join its parts"),
        ({"x": [[1.0], [1.0, 2.0]]}, r"features of one length, got \[1, 2\], the first change in row 1"),
        ({"x": [[1.0, float("nan")], [1.0, 2.0]]}, "x must be finite, got NaN or an infinite number in row 0"),
        ({"x": [[1.0, 2.0], None]}, "column x must have a list in every row, got 1 nulls"),
        ({"features": [[1.0, 2.0, 3.0], [1.0, 2.0]]}, "features must have 2 numbers, as x has, .* got 3 in row 0"),
        ({"features": [[1.0] * 4] * 2, "candidates": [[1, 2, 3]] * 2}, "must have the same K, got 3 and 2 in row 0"),
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
    with pytest.raises((ValueError, TypeError), match=match) as raised:
        read_decisions(tmp_path / "bad.parquet")
    assert str(tmp_path / "bad.parquet") in str(raised.value)


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
        with pytest.raises((ValueError, TypeError), match=r"bomb\.parquet takes \d+ bytes|must hold numbers"):
            read_decisions(path)

    assert _peak(read) < 2 * size + 50_000_000


def test_max_bytes_lets_a_large_table_in(tmp_path):
    table = {"x": [[0.0] * 1000] * 4000, "arm": [0] * 4000, "propensity": [0.5] * 4000, "reward": [1.0] * 4000}
    pq.write_table(pa.table(table), tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(ValueError, match=r"pass max_bytes=\d+ if that is what you expect"):
        read_decisions(tmp_path / "a.parquet")
    assert read_decisions(tmp_path / "a.parquet", max_bytes=200_000_000).x.shape == (4000, 1000)


def _frames():
    """Return functions that turn columns into tables of different libraries; the rewards may have None."""
    pandas = pytest.importorskip("pandas")
    yield pandas.DataFrame
    yield pa.table
    yield lambda rows: pandas.DataFrame(rows | {"x": [np.array(x) for x in rows["x"]]}, index=["a", "b"])


ROWS = GOOD | {"reward": [None, 2.0], "features": [[[1.0, 0.0], [5.0, 6.0]], [[9.0, 9.0], [0.0, 1.0]]], "bandit": [3, 4]}


def _same_as_parquet(frame, tmp_path):
    pq.write_table(pa.table(ROWS), tmp_path / "a.parquet")
    for got, want in zip(read_decisions(frame), read_decisions(tmp_path / "a.parquet"), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def test_dataframes_read_as_parquet_files_do(tmp_path):
    for frame in _frames():
        _same_as_parquet(frame(ROWS), tmp_path)


def test_polars(tmp_path):
    polars = pytest.importorskip("polars")
    _same_as_parquet(polars.DataFrame(ROWS), tmp_path)
    arrays = polars.DataFrame(ROWS).with_columns(polars.col("x").list.to_array(2))
    _same_as_parquet(arrays, tmp_path)
    with pytest.raises(ValueError, match=r"read_decisions: DataFrame: propensity must be in \(0, 1\], got 2.0 in row 1"):
        read_decisions(polars.DataFrame(ROWS | {"propensity": [0.5, 2.0]}))


def test_clicks_may_be_bool():
    rows = GOOD | {"reward": [True, None]}
    assert read_decisions(pa.table(rows)).reward.nan_to_num(-1).tolist() == [1.0, -1.0]


def test_a_table_without_propensities_is_marked():
    rows = {name: values for name, values in GOOD.items() if name != "propensity"}
    assert not read_decisions(pa.table(rows)).has_propensities
    assert read_decisions(pa.table(GOOD)).has_propensities


def test_what_is_no_table_is_named():
    with pytest.raises(TypeError, match="read_decisions: list: a path or a DataFrame is expected, got neither; collect a"):
        read_decisions([1, 2])
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="read_decisions: DataFrame cannot be converted to Arrow"):
        read_decisions(pandas.DataFrame(GOOD | {"x": [np.zeros((2, 2))] * 2}))


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
    with pytest.raises(ValueError, match=r"zeros\.parquet takes \d+ bytes"):
        read_decisions(tmp_path / "zeros.parquet")


def test_a_wrong_page_checksum_is_noticed(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(GOOD), path, compression="none", use_dictionary=False, write_page_checksum=True)
    data = path.read_bytes()
    at = data.index(np.array([0.5, 0.5]).tobytes())  # the propensities
    path.write_bytes(data[:at] + np.array([0.25]).tobytes() + data[at + 8 :])
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read as Parquet"):
        read_decisions(path)


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"candidates": [[3, -7], [1, 2]]}, "column candidates must hold item ids of at least 0 .*, got -7"),
        ({"candidates": pa.array([[3, 2**63 + 5], [1, 2]], pa.list_(pa.uint64()))}, "got 9223372036854775813"),
        (
            {"features": [[[1.0, 0.0, 5.0], [6.0]], [[0.0, 1.0], [1.0, 1.0]]]},
            "one length for all candidates, got 3 and 1 in row 0",
        ),
    ],
)
def test_candidates_that_would_be_read_as_others_are_refused(columns, match, tmp_path):
    pq.write_table(pa.table(GOOD | columns), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=match):
        read_decisions(tmp_path / "a.parquet")
