"""Data files: where they are searched for, and what happens when they are missing or damaged."""

import gzip

import numpy as np
import pytest

from torch_softucb.problems import DataError, load_jester, load_movielens
from torch_softucb.problems.tables import check_ratings, find_table, read_table


def _write(folder, name, text):
    file = folder / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return file


def test_missing_file_says_what_was_looked_for(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"load_jester: expected one of jester-data-1.csv \(or .gz\) in .*found none"):
        load_jester(tmp_path)
    monkeypatch.delenv("SOFTUCB_DATA", raising=False)
    with pytest.raises(DataError, match=r"load_movielens: path must be .* SOFTUCB_DATA is not set"):
        load_movielens()


def test_the_variable_names_the_folder_above(tmp_path, monkeypatch):
    (tmp_path / "ml-1m").mkdir()
    _write(tmp_path / "ml-1m", "ratings.dat", "1::10::5::978300760\n2::10::3::978300761\n")
    monkeypatch.setenv("SOFTUCB_DATA", str(tmp_path))
    assert load_movielens().num_users == 2


def test_files_are_found_by_path_by_folder_and_in_order_of_preference(tmp_path, monkeypatch):
    second = _write(tmp_path, "second.csv.gz", "1\n")
    assert find_table("test", second, ["other.csv"], ["."]) == second
    assert find_table("test", tmp_path, ["first.csv", "second.csv"], ["."]) == second
    first = _write(tmp_path, "first.csv", "1\n")
    assert find_table("test", tmp_path, ["first.csv", "second.csv"], ["."]) == first
    monkeypatch.setenv("SOFTUCB_DATA", str(tmp_path))
    assert find_table("test", None, ["second.csv"], ["absent", "."]) == second


def test_columns_are_read_in_the_order_asked_for(tmp_path):
    file = _write(tmp_path, "table.csv", "a,b,c\n1,2,3\n4,5,6.5\n")
    got = read_table("test", file, separator=",", columns=[2, 0], width=[3], header=True)
    np.testing.assert_array_equal(got, [[3.0, 1.0], [6.5, 4.0]])


def test_a_line_that_is_too_long_is_named(tmp_path):
    file = _write(tmp_path, "table.csv", "1,2\n3,4\n5,6,7\n")
    with pytest.raises(DataError, match=r"table.csv is not a table of columns separated by ',': .* line 3"):
        read_table("test", file, separator=",", columns=[0], width=[2], header=False)


def test_truncated_gzip(tmp_path):
    file = _write(
        tmp_path, "ratings.dat.gz", "".join(f"{u}::{i}::{1 + (u * i) % 5}\n" for u in range(99) for i in range(99))
    )
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"is truncated or damaged .* download it again"):
        load_movielens(file)
    file.write_bytes(b"not gzip at all")
    with pytest.raises(DataError, match="cannot be read"):
        load_movielens(file)


def test_ratings_out_of_range_are_named_and_gaps_are_accepted(tmp_path):
    values = np.array([[1.0, np.nan], [2.0, 3.0], [np.nan, 9.0]])
    check_ratings("test", tmp_path / "a.csv", values[:2], 1.0, 3.0, header=False)
    for header, line in ((False, 3), (True, 4)):
        with pytest.raises(DataError, match=rf"test: .*a.csv, line {line}: ratings must be in \[1, 3\], got 9"):
            check_ratings("test", tmp_path / "a.csv", values, 1.0, 3.0, header=header)
