"""Tables of ratings: CSV and Parquet agree, each format is recognised, and every fault names its row or its file."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from torch_softucb.errors import DataError
from torch_softucb.problems import fill_gaps, load_jester, load_movielens, load_rating_table, load_ratings

ROWS = [(7, "b", 4.0), (7, "a", 1.0), (3, "b", 5.0), (3, "c", 2.5)]
FRAME = pd.DataFrame(ROWS, columns=["user", "item", "rating"])


def _csv(folder, text, name="table.csv"):
    file = folder / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return file


def test_csv_and_parquet_agree(tmp_path):
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    FRAME.to_csv(tmp_path / "b.csv.gz", index=False)
    FRAME.assign(time=1)[["time", "rating", "item", "user"]].to_parquet(tmp_path / "c.parquet")
    FRAME.astype({"user": "string", "rating": "float32"}).to_parquet(tmp_path / "d.parquet")
    FRAME.astype({"user": "float64", "item": "category"}).to_parquet(tmp_path / "e.parquet")
    for name in ("a.csv", "b.csv.gz", "c.parquet", "d.parquet", "e.parquet"):
        ratings = load_ratings(tmp_path / name)
        assert ratings.user.tolist() == [1, 1, 0, 0]  # in the order of the ids 3, 7
        assert ratings.item.tolist() == [1, 0, 1, 2]
        assert ratings.value.tolist() == [4.0, 1.0, 5.0, 2.5]
        assert (ratings.num_users, ratings.num_items) == (2, 3)


def test_columns_may_have_other_names(tmp_path):
    FRAME.rename(columns={"user": "who", "item": "what", "rating": "stars"}).to_csv(tmp_path / "a.csv", index=False)
    ratings = load_ratings(tmp_path / "a.csv", columns=("who", "what", "stars"))
    assert ratings.value.tolist() == [4.0, 1.0, 5.0, 2.5]
    message = (
        r"a\.csv must have the columns user, item, rating, got none named user, item, rating among who, what, stars; pass"
    )
    with pytest.raises(DataError, match=message):
        load_ratings(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="columns must be the names of users, items and ratings"):
        load_ratings(tmp_path / "a.csv", columns="user")


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ("1,1,4\n1,2,\n", r"row 2: column rating must be a finite number, got 'nan'"),
        ("1,1,4\n1,2,nan\n", r"row 2: column rating must be a finite number, got 'nan'"),
        ("1,1,4\n1,2,good\n", r"row 2: column rating must be a finite number, got 'good'"),
        ("1,1,inf\n1,2,3\n", r"row 1: column rating must be a finite number, got 'inf'"),
        ("1,1,4\n,2,3\n", r"row 2: column user must be an id, got 'nan'"),
        ("1,1,4\n1,,3\n", r"row 2: column item must be an id"),
        ("1,1,4\n1.5,2,3\n", r"row 2: column user must be a whole number or a text, got '1.5'"),
        ("1,1,4\n1,1e999,3\n", r"row 2: column item must be a whole number or a text, got 'inf'"),
        ("1,1,4\n2,1,3\n1,1,5\n", r"row 3: this user has rated this item before"),
        ("", "must have at least one row, got none"),
        ("1,1,4\n1,2,5\n", "got 1 users, 2 items and ratings from 4 to 5"),
        ("1,1,4\n2,2,4\n", "got 2 users, 2 items and ratings from 4 to 4"),
    ],
)
def test_faults_are_named_with_their_row(rows, match, tmp_path):
    with pytest.raises(DataError, match=rf"load_ratings: .*table\.csv.*{match}"):
        load_ratings(_csv(tmp_path, "user,item,rating\n" + rows))


def test_missing_values_of_parquet_are_named_with_their_row(tmp_path):
    for column in FRAME.columns:
        nullable = FRAME.convert_dtypes()
        nullable.loc[2, column] = pd.NA
        nullable.to_parquet(tmp_path / "a.parquet")
        with pytest.raises(DataError, match=rf"a\.parquet, row 3: column {column} must be"):
            load_ratings(tmp_path / "a.parquet")


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(DataError, match=r"empty\.csv cannot be read as a table \(No columns"):
        load_ratings(_csv(tmp_path, "", "empty.csv"))
    with pytest.raises(DataError, match=r"empty\.parquet cannot be read as a table"):
        load_ratings(_csv(tmp_path, "", "empty.parquet"))
    with pytest.raises(DataError, match=r"nowhere\.csv cannot be read as a table \(.*No such file"):
        load_ratings(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match=r"expected a .csv or .parquet file .*, got .*table\.xlsx"):
        load_ratings(_csv(tmp_path, "", "table.xlsx"))
    whole = gzip.compress(b"user,item,rating\n" + b"1,2,3\n" * 1000)
    (tmp_path / "cut.csv.gz").write_bytes(whole[:-20])
    with pytest.raises(DataError, match=r"cut\.csv\.gz is damaged"):
        load_ratings(tmp_path / "cut.csv.gz")
    (tmp_path / "bytes.csv").write_bytes(b"user,item,rating\n\xff\xfe,1,2\n")
    with pytest.raises(DataError, match=r"bytes\.csv is damaged, or is not text"):
        load_ratings(tmp_path / "bytes.csv")


def test_each_format_is_recognised(tmp_path):
    random = np.random.default_rng(0)
    stars = random.integers(1, 6, size=(12, 5))
    cells = [(user, item, int(stars[user, item])) for user, item in np.ndindex(stars.shape)]
    (folder := tmp_path / "ml").mkdir()
    _csv(folder, "".join(f"{u}\t{i}\t{r}\t0\n" for u, i, r in cells), "u.data")
    table = _csv(tmp_path, "user,item,rating\n" + "".join(f"{u},{i},{r}\n" for u, i, r in cells))
    wanted = fill_gaps(load_movielens(folder), num_items=4)
    for path in (folder, folder / "u.data", table, str(table)):
        assert np.array_equal(load_rating_table(path, num_items=4), wanted)
    jokes = random.uniform(-10, 10, size=(6, 100)).round(2)
    lines = [",".join(["100", *map(str, row)]) for row in jokes]
    jester = _csv(tmp_path / "ml", "\n".join(lines), "jester-data-1.csv.gz").rename(tmp_path / "jester-data-1.csv.gz")
    assert np.array_equal(load_rating_table(jester, num_items=4), load_jester(jester, num_items=4))
    with pytest.raises(DataError, match=r"num_items must be in \[2, 5\], got 6"):
        load_rating_table(table, num_items=6)
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"expected one of ratings\.dat"):
        load_rating_table(empty)


@pytest.mark.skipif("SOFTUCB_DATA" not in os.environ, reason="SOFTUCB_DATA is not set: no MovieLens")
def test_movielens_as_a_table_is_movielens():
    folder = Path(os.environ["SOFTUCB_DATA"]) / "ml-latest-small"
    plain = load_ratings(folder / "ratings.csv.gz", columns=("userId", "movieId", "rating"))
    for one, other in zip(plain, load_movielens(folder), strict=True):
        assert np.array_equal(one, other)


def test_rows_longer_than_the_header_are_refused(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating\n1,10,3,978\n2,11,4,979\n")
    with pytest.raises(DataError, match="has rows with more fields than the header"):
        load_ratings(tmp_path / "r.csv")


def test_balanced_ratings_can_be_completed(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating\na,x,1\na,y,2\nb,x,2\nb,y,1\n")
    assert load_rating_table(tmp_path / "r.csv", num_items=2).tolist() == [[0.0, 1.0], [1.0, 0.0]]
