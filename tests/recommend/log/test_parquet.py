"""Sealed segments: the records of the journal, as Parquet files with checksums."""

import hashlib
import json
import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from tests.recommend.cases import fill, head
from torch_softucb import SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import DecisionLog, JournalError, log_records, read_decisions, read_log, restart
from torch_softucb.recommend.log.manifests import load_durable, load_sealed
from torch_softucb.recommend.log.parquet import read_segment
from torch_softucb.recommend.log.segments import is_sealed, manifest_path, parquet_path, segment_path


def _filled(folder, seal):
    with DecisionLog(folder) as log:
        fill(log, head(users=20), steps=4)
        if seal:
            log.seal()
    return folder


@pytest.fixture
def folder(tmp_path):
    return _filled(tmp_path / "log", seal=True)


def test_sealing_keeps_every_record_its_order_and_its_shape(tmp_path, folder):
    before, after = list(log_records(_filled(tmp_path / "journal", seal=False))), list(log_records(folder))
    assert is_sealed(folder, 1)
    assert not segment_path(folder, 1).exists()
    assert [record_type for record_type, _ in after] == [record_type for record_type, _ in before]
    for (_, want), (record_type, got) in zip(before, after, strict=True):
        assert set(got) == set(want)
        for name, values in want.items():
            np.testing.assert_array_equal(got[name], values, err_msg=f"{record_type}: {name}")


@pytest.mark.parametrize("left", ["journal and all", "journal without manifest", "journal and decisions"])
def test_a_crash_while_sealing_loses_and_doubles_nothing(left, tmp_path):
    folder = _filled(tmp_path / "log", seal=False)
    journal, want = segment_path(folder, 1).read_bytes(), read_log(folder)
    with DecisionLog(folder) as log:
        log.seal()
        (folder / "00000002.journal").unlink()
        segment_path(folder, 1).write_bytes(journal)  # as if it had never been removed
        if left != "journal and all":
            manifest_path(folder, 1).unlink()
        if left == "journal and decisions":
            parquet_path(folder, 1, "rewards").unlink()
        assert read_log(folder).id.equal(want.id)
        log._files.release()
        log = DecisionLog(folder)
        log.seal()
        log.close()
    got = read_log(folder)
    for name, values in want._asdict().items():
        torch.testing.assert_close(getattr(got, name), values, equal_nan=True, rtol=0, atol=0)


def test_a_segment_without_rewards_is_sealed_too(tmp_path):
    ours = head()
    with DecisionLog(tmp_path) as log:
        served = ours.serve(ours(torch.tensor([1]), torch.tensor([[2, 3]])))
        log.decisions(served)
        log.seal()
    segment = read_segment(tmp_path, 1, load_sealed(manifest_path(tmp_path, 1), load_durable(tmp_path), 1))
    assert segment["rewards"] == []
    assert segment["decisions"][0]["id"].tolist() == served.id.tolist()
    assert pq.read_schema(tmp_path / "00000001.rewards.parquet").names == ["record", "id", "reward"]


def test_segments_with_features_of_two_lengths_stay_readable_after_sealing(tmp_path):
    small, large = (SoftUCBHead(nn.Identity(), SoftUCBPolicy(dim)) for dim in (2, 3))
    large.reseed(replica=7)
    with DecisionLog(tmp_path) as log:
        log.decisions(small.serve(small(torch.randn(3, 4, 2))))
        served = large.serve(large(torch.randn(2, 4, 3)))
        log.decisions(served, features=torch.randn(4, 3))
        log.rewards(served.id, torch.ones(2))
        log.commit()
        before = list(log_records(tmp_path))
        log.seal()
    after = list(log_records(tmp_path))
    assert [(kind, columns["id"].tolist()) for kind, columns in after] == [
        (kind, columns["id"].tolist()) for kind, columns in before
    ]
    assert [columns["x"].shape for kind, columns in after if kind == "decisions"] == [(3, 2), (2, 3)]
    with pytest.raises(
        ValueError,
        match=r"features of one length, got \[2, 3\], the first change in record 1; read each length with read_log\(.*dim",
    ):
        read_log(tmp_path)
    got = read_log(tmp_path, dim=3)
    assert (got.x.shape, got.features.shape, got.reward.tolist()) == ((2, 3), (2, 4, 3), [1.0, 1.0])
    assert read_log(tmp_path, dim=2).x.shape == (3, 2)
    assert read_decisions(tmp_path, dim=3).x.shape == (2, 3)
    with pytest.raises(ValueError, match="no decision with 5 features"):
        read_log(tmp_path, dim=5)


@pytest.mark.parametrize(
    "name", ["00000001.decisions.parquet", "00000001.rewards.parquet", "00000001.manifest.json", "log.json"]
)
def test_every_flip_and_cut_of_a_sealed_segment_is_refused_by_name(name, folder):
    rng = random.Random(0)
    path, calls = (
        folder / name,
        [lambda: read_log(folder), lambda: list(log_records(folder)), lambda: restart(head(users=20), folder)],
    )
    whole, want = path.read_bytes(), read_log(folder)
    for turn in range(300):
        data = bytearray(whole)
        if turn % 6:
            bit = rng.randrange(8 * len(data))
            data[bit // 8] ^= 1 << bit % 8
        else:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(bytes(data))
        if name.endswith("json") and turn % 6:
            try:
                got = read_log(folder)
            except JournalError as error:
                assert name in str(error) or "00000001" in str(error) or "segment" in str(error)  # noqa: PT017
                continue
            assert got.id.equal(want.id)  # white space
            continue
        with pytest.raises(JournalError, match=name):
            calls[turn % 3]()
    path.unlink()
    with pytest.raises(JournalError, match=r"missing|No such file"):
        read_log(folder)


def test_the_checksums_are_those_of_the_files_and_the_pages(folder):
    manifest = json.loads(manifest_path(folder, 1).read_text())
    for record_type, digest in manifest["sha256"].items():
        data = parquet_path(folder, 1, record_type).read_bytes()
        assert hashlib.sha256(data).hexdigest() == digest
        assert pq.read_metadata(parquet_path(folder, 1, record_type)).num_rows == manifest["rows"][record_type]
    path = parquet_path(folder, 1, "decisions")
    data, noticed = path.read_bytes(), 0
    for at in range(4, len(data) // 2, 97):  # the pages come before the footer
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            pq.ParquetFile(path, page_checksum_verification=True).read()
        except (OSError, pa.ArrowException):
            noticed += 1
    assert noticed > 10


def _forged(folder, record_type, table):
    """Replace a file of a sealed segment, with a manifest that fits."""
    from torch_softucb.recommend.log.manifests import save_sealed

    path = parquet_path(folder, 1, record_type)
    pq.write_table(table, path, compression="zstd")
    sealed = load_sealed(manifest_path(folder, 1), load_durable(folder), 1)
    sealed.rows[record_type] = table.num_rows
    sealed.sha256[record_type] = hashlib.sha256(path.read_bytes()).hexdigest()
    save_sealed(manifest_path(folder, 1), sealed)
    return path


def test_a_file_that_declares_more_than_it_has_room_for_is_refused_before_it_is_decoded(folder):
    table = pq.read_table(parquet_path(folder, 1, "rewards"))
    many = pa.table(
        {name: np.zeros(50_000_000 // 8, table.schema.field(name).type.to_pandas_dtype()) for name in table.column_names}
    )
    path = _forged(folder, "rewards", many)
    assert path.stat().st_size < 200_000
    before = pa.total_allocated_bytes()
    with pytest.raises(JournalError, match="it declares more values than it has room for"):
        read_log(folder)
    assert pa.total_allocated_bytes() - before < 1_000_000


def test_wrong_columns_nulls_and_records_are_refused(folder):
    table = pq.read_table(parquet_path(folder, 1, "rewards"))
    none = table.set_column(1, "id", pa.array([None] * table.num_rows, pa.int64()))
    other = table.rename_columns(["record", "id", "price"])
    lost = table.slice(3)
    for bad, match in [
        (none, "a value is missing"),
        (other, "columns are not those"),
        (lost, "does not have the 8 records"),
    ]:
        _forged(folder, "rewards", bad)
        with pytest.raises(JournalError, match=match):
            read_log(folder)


def test_without_pyarrow_the_error_names_what_to_install(tmp_path):
    """Journals can be written and read without it; sealing and Parquet files cannot."""
    script = """
import sys
sys.modules["pyarrow"] = None
from torch_softucb.recommend import DecisionLog, read_decisions, read_log
print(len(read_log(sys.argv[1]).id))
open(sys.argv[2], "w").close()
log = DecisionLog(sys.argv[1])
for call in (log.seal, lambda: read_decisions(sys.argv[2])):
    try:
        call()
    except ImportError as error:
        print(error)
log.commit()
"""
    folder, table = _filled(tmp_path / "log", seal=False), tmp_path / "table.parquet"
    done = subprocess.run([sys.executable, "-c", script, folder, table], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    need = "Parquet files need pyarrow, which is not installed; use `pip install pyarrow`"
    assert done.stdout.splitlines() == ["20", f"DecisionLog.seal: {need}", f"read_decisions: {need}"]
