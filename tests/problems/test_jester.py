"""Jester: which jokes and users are kept, the scale, and malformed files."""

import gzip
import os

import numpy as np
import pytest

from torch_softucb.problems import DataError, load_jester


def _line(ratings):
    """A line of the original format: how many of the 100 jokes were rated, then the ratings, 99 for none."""
    values = [99.0] * 100
    for joke, rating in ratings.items():
        values[joke] = rating
    return ",".join(map(str, [len(ratings), *values]))


def _write(folder, *lines):
    file = folder / "jester-data-1.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_users_who_rated_all_of_the_most_rated_jokes_are_kept(tmp_path):
    """Jokes 7, 3 and 50 have 3, 3 and 2 ratings: the two most rated are 3 and 7, in the order of the file."""
    file = _write(
        tmp_path,
        _line({3: -10.0, 7: 10.0, 50: 1.0}),
        _line({3: 0.0, 50: 2.0}),
        _line({3: 5.0, 7: -5.0}),
        _line({7: 9.0}),
    )
    np.testing.assert_allclose(load_jester(file, num_items=2), [[0.0, 1.0], [0.75, 0.25]])


def test_gzip_and_folders_are_accepted(tmp_path, monkeypatch):
    text = "\n".join(_line({joke: joke / 10.0 for joke in range(user, user + 60)}) for user in range(3)) + "\n"
    folder = tmp_path / "jester"
    folder.mkdir()
    (folder / "jester-data-1.csv.gz").write_bytes(gzip.compress(text.encode()))
    table = load_jester(folder, num_items=40)
    assert table.shape == (3, 40)
    monkeypatch.setenv("SOFTUCB_DATA", str(tmp_path))
    np.testing.assert_array_equal(load_jester(num_items=40), table)


ALL = dict.fromkeys(range(100), 1.0)


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (
            [_line(ALL), _line({0: 1.0}), _line(ALL | {4: 11.5})],
            r"jester-data-1.csv, line 3: ratings must be in \[-10, 10\], got 11.5",
        ),
        (["1,2,3"], "must have 101 columns"),
        ([_line(ALL).replace("100,", "7,", 1)], r"line 1: column 1 must be the number of ratings, 100 in this line, got 7"),
        ([_line(ALL), _line(ALL).replace("1.0", "fun", 1)], r"line 2: column 2 must be a number, got 'fun'"),
    ],
)
def test_malformed_files_are_named_with_their_line(tmp_path, lines, match):
    with pytest.raises(DataError, match=match):
        load_jester(_write(tmp_path, *lines))


@pytest.mark.parametrize("num_items", [1, 101])
def test_num_items_must_be_possible(tmp_path, num_items):
    with pytest.raises(DataError, match=rf"num_items must be in \[2, 100\], got {num_items}"):
        load_jester(_write(tmp_path, _line(ALL)), num_items=num_items)


@pytest.mark.skipif("SOFTUCB_DATA" not in os.environ, reason="SOFTUCB_DATA is not set: no real data here")
def test_jester_is_what_its_papers_say():
    table = load_jester()
    assert table.shape == (19181, 40)
    assert 20 * table.mean() - 10 == pytest.approx(1.505, abs=1e-3)
