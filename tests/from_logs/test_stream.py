"""Parts and batches of Parquet datasets, in order and on any engine; bad input with file and row."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from torch_softucb.from_logs import stream
from torch_softucb.from_logs.stream import LogPart, log_parts, map_parts, part_batches


def write(folder, sizes=(5, 3), group=2, **change):
    """Write one file per size, with consecutive numbers as x; return the number of rows."""
    folder.mkdir(exist_ok=True)
    number = 0
    for i, size in enumerate(sizes):
        x = [[float(j)] for j in range(number, number + size)]
        rows = {"x": x, "arm": [0] * size, "propensity": [0.5] * size, "reward": [1.0] * size} | change
        pq.write_table(pa.table(rows), folder / f"{i}.parquet", row_group_size=group)
        number += size
    return number


def _numbers(parts):
    return [row for part in parts for batch in part_batches("f", part) for row in batch.log.x[:, 0].tolist()]


def test_parts_are_row_groups_in_order(tmp_path):
    write(tmp_path / "log")
    parts = log_parts("f", tmp_path / "log")
    one, two = str(tmp_path / "log" / "0.parquet"), str(tmp_path / "log" / "1.parquet")
    assert parts == [
        LogPart(one, 0, 0, 0, 0, 2),
        LogPart(one, 1, 2, 2, 0, 2),
        LogPart(one, 2, 4, 4, 0, 1),
        LogPart(two, 0, 0, 5, 0, 2),
        LogPart(two, 1, 2, 7, 0, 1),
    ]
    assert log_parts("f", [one, two]) == parts
    assert _numbers(parts) == list(range(8))


@pytest.mark.parametrize("cut", [0.0, 0.125, 0.3, 0.5, 0.875, 1.0])
def test_shares_cut_the_rows_without_overlap_or_gap(tmp_path, monkeypatch, cut):
    monkeypatch.setattr(stream, "_ROWS", 2)
    write(tmp_path / "log", group=3)
    shares = [(a, b) for a, b in ((0.0, cut), (cut, 1.0)) if a < b]
    parts = [part for share in shares for part in log_parts("f", tmp_path / "log", share=share)]
    assert _numbers(parts) == list(range(8))
    assert [batch.number + i for part in parts for batch in part_batches("f", part) for i in range(len(batch.log.id))] == [
        *range(8)
    ]


def test_map_keeps_the_order(tmp_path):
    write(tmp_path / "log")
    parts = log_parts("f", tmp_path / "log")
    assert list(map_parts("f", lambda part: part.number, parts)) == [0, 2, 4, 5, 7]


def test_errors_name_file_and_row(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "_ROWS", 2)
    write(tmp_path / "log", sizes=(6,), group=4, reward=[1.0, 1.0, 1.0, 1.0, 1.0, float("nan")])
    with pytest.raises(ValueError, match=r"f: .*0\.parquet, rows from 4: reward must be a number, .* got NaN in row 1"):
        _numbers(log_parts("f", tmp_path / "log"))
    write(tmp_path / "log", sizes=(2,), arm=[0, -1])
    with pytest.raises(ValueError, match=r"0\.parquet, rows from 0: arm must be at least 0, got -1 in row 1"):
        _numbers(log_parts("f", tmp_path / "log"))
    write(tmp_path / "log", sizes=(2,), candidates=[[1], []])
    with pytest.raises(ValueError, match="candidates must not be empty, got none in row 1"):
        _numbers(log_parts("f", tmp_path / "log"))


def test_what_is_no_dataset_is_named(tmp_path):
    with pytest.raises(ValueError, match="has no Parquet files; give a folder with some"):
        log_parts("f", tmp_path)
    with pytest.raises(ValueError, match=r"f: .*nothing\.parquet cannot be read as Parquet"):
        log_parts("f", tmp_path / "nothing.parquet")
    write(tmp_path / "log")
    with pytest.raises(ValueError, match="share must be two increasing numbers"):
        log_parts("f", tmp_path / "log", share=(0.5, 0.5))
    (tmp_path / "log" / "0.parquet").rename(tmp_path / "log" / "00000001.rewards.parquet")
    with pytest.raises(ValueError, match="holds the rewards of a DecisionLog"):
        log_parts("f", tmp_path / "log")
    write(tmp_path / "empty", sizes=(2,))
    pq.write_table(pq.read_table(tmp_path / "empty" / "0.parquet").slice(0, 0), tmp_path / "empty" / "0.parquet")
    with pytest.raises(ValueError, match="at least one decision is needed"):
        log_parts("f", tmp_path / "empty")


def test_engines_are_checked(tmp_path, monkeypatch):
    write(tmp_path / "log")
    parts = log_parts("f", tmp_path / "log")
    with pytest.raises(ValueError, match="engine must be"):
        list(map_parts("f", len, parts, engine="spark"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"engine='ray' needs ray, .*pip install torch_softucb\[ray\]"):
        list(map_parts("f", len, parts, engine="ray"))


def test_a_batch_is_as_a_log_in_memory(tmp_path):
    write(tmp_path / "log", sizes=(2,), features=[[[0.0], [3.0]], [[1.0], [4.0]]])
    (part,) = log_parts("f", tmp_path / "log")
    (batch,) = part_batches("f", part)
    assert batch.log.features.squeeze(-1).tolist() == [[0, 3], [1, 4]]
    assert batch.log.x.dtype == torch.double


def test_files_with_other_columns_are_named(tmp_path):
    write(tmp_path)
    rows = {"x": [[1.0]], "arm": [0], "reward": [1.0]}
    pq.write_table(pa.table(rows), tmp_path / "9.parquet")
    with pytest.raises(ValueError, match=r"the same columns, got .* in .*0\.parquet and arm, reward, x in .*9\.parquet"):
        log_parts("f", tmp_path)
