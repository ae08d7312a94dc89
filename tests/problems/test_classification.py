"""Classification tables as bandits: encoding by hand, errors, and the real sets where they are present."""

import os

import pytest
import torch

from torch_softucb.problems import DataError
from torch_softucb.problems.classification import load_classification

TABLE = """@relation t
@attribute colour {red,green}
@attribute size numeric
@attribute Class {b,a,never}
@data
red,1,b
green,3,a
?,?,b
"""


def test_encoding_worked_out_by_hand(tmp_path):
    (tmp_path / "t.arff").write_text(TABLE)
    data = load_classification(tmp_path, name="t")
    # size: mean 2, deviation 1; a missing value is 0 everywhere; the last column is the constant
    raw = torch.tensor([[1, 0, -1, 1], [0, 1, 1, 1], [0, 0, 0, 1]], dtype=torch.double)
    torch.testing.assert_close(data.contexts, raw / raw.norm(dim=-1, keepdim=True))
    assert data.classes == ("a", "b")  # a declared class without rows is no arm
    assert data.label.tolist() == [1, 0, 1]


def test_missing_column_and_missing_class_are_named(tmp_path):
    file = tmp_path / "t.arff"
    file.write_text(TABLE)
    with pytest.raises(DataError, match=r"must have one column named label, got colour, size, Class; name it with target="):
        load_classification(file, target="label")
    file.write_text(TABLE + "red,1,?\n")
    with pytest.raises(DataError, match=r"every row needs a class, got none in 1 rows, the first 3"):
        load_classification(file)


@pytest.mark.skipif("SOFTUCB_DATA" not in os.environ, reason="SOFTUCB_DATA is not set: no real data")
@pytest.mark.parametrize(
    ("name", "rows", "classes"),
    [("letter", 20_000, 26), ("pendigits", 10_992, 10), ("nursery", 12_960, 5), ("mushroom", 8_124, 2)],
)
def test_real_sets_have_their_published_sizes(name, rows, classes):
    data = load_classification(name=name)
    assert (len(data.label), len(data.classes)) == (rows, classes)
    torch.testing.assert_close(data.contexts.norm(dim=-1), torch.ones(rows, dtype=torch.double))
