import gzip

import numpy as np
import pytest

from torch_softucb.problems import DataError, load_jester, load_movielens


def _jester_line(rated=100, value=1.0):
    return ",".join([str(rated), *([str(value)] * rated), *(["99"] * (100 - rated))])


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


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("ratings.dat", "1::10::5\n1::11\n", r"line 2: column 5 must be a number"),
        ("ratings.dat", "1,10,5\n", r"must have 5 or 7 columns separated by ':', got 1"),
        ("ratings.dat", "1::10::5\n1::11::good\n", r"line 2: column 5 must be a number, got 'good'"),
        ("ratings.dat", "1::10::5\n2::11::7\n", r"line 2: ratings must be in \[0.5, 5\], got 7"),
        ("ratings.dat", "1::10::5\n2::11::7\n", r"ratings.dat, line 2"),
        (
            "ratings.csv",
            "userId,movieId,rating,timestamp\n1,1,4.0,9\n1,2,,9\n",
            r"line 3: column 3 must be a number, got ''",
        ),
        ("ratings.csv", "userId,movieId,rating,timestamp\n1,1,4.0,9\n2,1,nan,9\n", r"line 3: column 3 must be a number"),
        ("ratings.csv", "userId,movieId\n1,1\n", r"must have 3 or 4 columns"),
        ("u.data", "1\t10\t5\t8\n1\t10\t4\t9\n", r"line 2: this user has rated this film before"),
        ("u.data", "", r"is not a table"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, name, text, match):
    with pytest.raises(DataError, match=match):
        load_movielens(_write(tmp_path, name, text))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            f"{_jester_line()}\n{_jester_line(99)}\n{_jester_line(100, 11.5)}\n",
            r"line 3: ratings must be in \[-10, 10\], got 11.5",
        ),
        ("1,2,3\n", "must have 101 columns"),
        (_jester_line().replace("100,", "7,", 1), r"line 1: column 1 says 7 ratings, there are 100"),
        (f"{_jester_line()}\n{_jester_line().replace('1.0', 'fun', 1)}\n", r"line 2: column 2 must be a number, got 'fun'"),
    ],
)
def test_jester_faults(tmp_path, text, match):
    with pytest.raises(DataError, match=match):
        load_jester(_write(tmp_path, "jester-data-1.csv", text))


def test_truncated_gzip(tmp_path):
    file = _write(
        tmp_path, "ratings.dat.gz", "".join(f"{u}::{i}::{1 + (u * i) % 5}\n" for u in range(99) for i in range(99))
    )
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"is cut off or damaged .* download it again"):
        load_movielens(file)
    file.write_bytes(b"not gzip at all")
    with pytest.raises(DataError, match="cannot be read"):
        load_movielens(file)


def test_formats_agree(tmp_path):
    rows = [(1, 10, 5.0), (1, 12, 3.0), (4, 10, 0.5), (9, 11, 4.0)]
    dat = _write(tmp_path, "ratings.dat.gz", "".join(f"{u}::{i}::{r}::0\n" for u, i, r in rows))
    tab = _write(tmp_path, "u.data", "".join(f"{u}\t{i}\t{r}\t0\n" for u, i, r in rows))
    csv = _write(
        tmp_path, "ratings.csv", "userId,movieId,rating,timestamp\n" + "".join(f"{u},{i},{r},0\n" for u, i, r in rows)
    )
    for file in (dat, tab, csv):
        got = load_movielens(file)
        assert (got.num_users, got.num_items) == (3, 3)
        np.testing.assert_array_equal(got.user, [0, 0, 1, 2])
        np.testing.assert_array_equal(got.item, [0, 2, 0, 1])
        np.testing.assert_array_equal(got.value, [5, 3, 0.5, 4])
