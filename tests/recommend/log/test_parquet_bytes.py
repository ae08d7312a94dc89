"""Files of a sealed segment, checked before they are decoded."""

import hashlib
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from torch_softucb.recommend import JournalError
from torch_softucb.recommend.log.parquet_bytes import checked_table, damaged_parquet, decoded_bytes

SCHEMA = pa.schema([("id", pa.int64()), ("reward", pa.float64())])
TABLE = pa.table({"id": [1, 2, 3], "reward": [0.5, 1.0, 2.0]}, schema=SCHEMA)


def test_a_table_comes_back_if_everything_fits(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path, write_page_checksum=True)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert checked_table(path, SCHEMA, digest, 3).equals(TABLE)
    assert checked_table(path, SCHEMA, None, None).equals(TABLE)
    for sha256, rows, schema, match in [
        ("0" * 64, 3, SCHEMA, "its SHA-256 is not that of the manifest"),
        (digest, 4, SCHEMA, "it has 3 rows, the manifest has 4"),
        (digest, 3, SCHEMA.remove(0), "its columns are not those of a decision log"),
    ]:
        with pytest.raises(JournalError, match=rf"a\.parquet: is damaged \({match}\)"):
            checked_table(path, schema, sha256, rows)
    for text in (b"", b"PAR1", b"PAR1" * 9):
        path.write_bytes(text)
        with pytest.raises(JournalError, match=r"a\.parquet: is damaged"):
            checked_table(path, SCHEMA, None, None)


def test_decoded_bytes_count_the_values_whatever_their_encoding(tmp_path):
    many = pa.table({"id": [7] * 100_000, "reward": [1.0] * 100_000}, schema=SCHEMA)
    pq.write_table(many, tmp_path / "a.parquet", compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 5000
    assert decoded_bytes(pq.read_metadata(tmp_path / "a.parquet"), {0, 1}) == 1_600_000


def test_the_error_names_file_and_reason():
    assert str(damaged_parquet("a", ValueError("first\nsecond"))).startswith("a: is damaged (first); restore")
    assert "(KeyError)" in str(damaged_parquet("a", KeyError()))


def test_values_that_are_missing_changed_or_too_many_are_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, None], "reward": [0.5, 1.0]}, schema=SCHEMA), path)
    with pytest.raises(JournalError, match=r"is damaged \(a value is missing\)"):
        checked_table(path, SCHEMA, None, None)
    pq.write_table(pa.table({"id": [7] * 10_000, "reward": [1.0] * 10_000}, schema=SCHEMA), path)  # a dictionary
    with pytest.raises(JournalError, match="it declares more values than it has room for"):
        checked_table(path, SCHEMA, None, None)
    pq.write_table(TABLE, path, compression="none", use_dictionary=False, write_page_checksum=True)
    data = path.read_bytes()
    at = data.index(struct.pack("<3d", 0.5, 1.0, 2.0))  # the rewards
    path.write_bytes(data[:at] + b"\x01" + data[at + 1 :])
    with pytest.raises(JournalError, match=r"a\.parquet: is damaged"):
        checked_table(path, SCHEMA, None, None)
