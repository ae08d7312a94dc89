"""Rows survive a CSV file, under the column names of the published files."""

import json

import pytest

from experiments.tables import having, load, save


def test_rows_come_back_with_their_types(tmp_path):
    rows = [{"name": "a, b", "count": 3, "mean": 0.1234567891, "learned": True, "empty": ""}]
    save(rows, tmp_path, "some", {"command": "x"})
    assert load(tmp_path, "some") == [{"name": "a, b", "count": 3, "mean": 0.1234568, "learned": True, "empty": ""}]
    assert json.loads((tmp_path / "some.json").read_text()) == {"command": "x"}


def test_published_column_names_stay_in_the_files(tmp_path):
    rows = [{"setting": "S", "policy": "LinUCB", "baseline": "LinTS"}]
    save(rows, tmp_path, "worth", {})
    assert (tmp_path / "worth.csv").read_text().splitlines()[0] == "setting,contender,rival"
    assert load(tmp_path, "worth") == rows


def test_a_missing_table_names_its_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.csv is not there; run the part that makes it"):
        load(tmp_path, "none")


def test_having_needs_all_values_to_match():
    rows = [{"a": 1, "b": 1}, {"a": 1, "b": 2}]
    assert having(rows, a=1, b=2) == [rows[1]]
    assert having(rows, a=2) == []
