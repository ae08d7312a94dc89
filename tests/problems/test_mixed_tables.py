"""ARFF and CSV tables of numbers and categories: what is read, and which line an error names."""

import gzip

import pytest

from torch_softucb.problems import DataError
from torch_softucb.problems.mixed_tables import read_mixed_table

ARFF = """% a comment
@relation 'small set'

@ATTRIBUTE 'cap shape' { 'a b', c}
@attribute size  integer
@attribute class {yes,no}
@data
'a b', 1.5, yes
% another comment
c,?,no
"""


def _file(folder, name, text):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["t.arff", "t.arff.gz"])
def test_arff_has_names_categories_and_missing_values(tmp_path, name):
    shape, size, label = read_mixed_table("test", _file(tmp_path, name, ARFF))
    assert shape == ("cap shape", ("a b", "c"), ["a b", "c"])
    assert size == ("size", None, [1.5, None])
    assert label == ("class", ("yes", "no"), ["yes", "no"])


def test_csv_columns_are_numbers_if_all_values_are(tmp_path):
    a, b = read_mixed_table("test", _file(tmp_path, "t.csv", "a,b\n1,x\n,2\n-3e1,\n"))
    assert a == ("a", None, [1.0, None, -30.0])
    assert b == ("b", ("2", "x"), ["x", "2", None])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ARFF + "c,1\n", r"t.arff, line 11: expected 3 values, got 2"),
        (ARFF + "c,big,no\n", r"line 11: column size must be a number, got 'big'"),
        (ARFF + "c,inf,no\n", r"line 11: column size must be a number, got 'inf'"),
        (ARFF + "d,1,no\n", r"line 11: column cap shape must be one of a b, c, got 'd'"),
        (ARFF.replace("integer", "string"), r"line 5: expected '@attribute name numeric' or"),
        (ARFF.replace("@data", "@date"), r"line 7: expected @relation, @attribute or @data, got '@date'"),
        (ARFF.split("@data")[0], r"must have a line @data, got none"),
        (ARFF.split("'a b', 1.5")[0], r"must have at least one row, got none"),
    ],
)
def test_errors_name_file_and_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_mixed_table("test", _file(tmp_path, "t.arff", text))


def test_empty_and_damaged_files(tmp_path):
    with pytest.raises(DataError, match="at least one row"):
        read_mixed_table("test", _file(tmp_path, "t.csv", ""))
    path = _file(tmp_path, "t.arff.gz", ARFF)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"t.arff.gz is truncated or damaged"):
        read_mixed_table("test", path)
    path.write_bytes(b"not gzip")
    with pytest.raises(DataError, match="cannot be read"):
        read_mixed_table("test", path)
