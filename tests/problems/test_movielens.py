"""MovieLens: three file formats, malformed files, and gaps filled by matrix factorisation."""

import gzip
import os

import numpy as np
import pytest

from torch_softucb.problems import DataError, Ratings, fill_gaps, load_movielens


def _write(folder, name, text):
    file = folder / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return file


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
        ("ratings.csv", "userId,movieId,rating\n1,1,4.0\n1,1,3.0\n", r"line 3: this user has rated this item before"),
        ("u.data", "1\t10\t5\t8\n1\t10\t4\t9\n", r"line 2: this user has rated this item before"),
        ("u.data", "", r"is not a table"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, name, text, match):
    with pytest.raises(DataError, match=match):
        load_movielens(_write(tmp_path, name, text))


def test_gaps_are_filled_by_what_similar_users_say():
    """A low-rank table with a third of its entries hidden: closer to the truth than means alone; what is there stays."""
    random = np.random.default_rng(2)
    low_rank = np.random.default_rng(0)
    truth = np.clip(3 + low_rank.normal(size=(400, 3)) @ low_rank.normal(size=(3, 60)) * 0.7, 1, 5)
    seen = random.random(truth.shape) < 0.67
    user, item = np.nonzero(seen)
    got = fill_gaps(Ratings(user, item, truth[seen], 400, 60), num_items=30, rank=3)
    chosen = np.sort(np.argsort(-seen.sum(0), kind="stable")[:30])
    want, there = (truth[:, chosen] - truth[seen].min()) / (truth[seen].max() - truth[seen].min()), seen[:, chosen]
    np.testing.assert_allclose(got[there], want[there], atol=1e-12)
    error, base = np.abs(got - want)[~there].mean(), np.abs(want - want.mean(0))[~there].mean()
    assert error < 0.7 * base
    assert got.min() >= 0
    assert got.max() <= 1


@pytest.mark.parametrize("num_items", [1, 4])
def test_num_items_must_be_possible(num_items):
    ratings = Ratings(np.array([0, 1]), np.array([0, 2]), np.array([1.0, 5.0]), 2, 3)
    with pytest.raises(DataError, match=rf"fill_gaps: num_items must be in \[2, 3\], got {num_items}"):
        fill_gaps(ratings, num_items=num_items)


@pytest.mark.skipif("SOFTUCB_DATA" not in os.environ, reason="SOFTUCB_DATA is not set: no real data here")
@pytest.mark.parametrize(
    ("folder", "users", "items", "count", "mean"),
    [
        ("ml-1m", 6040, 3706, 1_000_209, 3.5816),
        ("ml-100k", 943, 1682, 100_000, 3.52986),
        ("ml-latest-small", 610, 9724, 100_836, 3.5016),
    ],
)
def test_movielens_is_what_its_readme_says(folder, users, items, count, mean):
    ratings = load_movielens(os.path.join(os.environ["SOFTUCB_DATA"], folder))
    assert (ratings.num_users, ratings.num_items, len(ratings.value)) == (users, items, count)
    assert ratings.value.mean() == pytest.approx(mean, abs=1e-4)
    table = fill_gaps(ratings)
    assert table.shape == (users, 40)
    assert table.min() >= 0
    assert table.max() <= 1
    assert np.array_equal(table, fill_gaps(ratings))
