"""Sealed segments: the records of the journal, as Parquet files."""

import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from tests.recommend.cases import fill, head
from torch_softucb.recommend import DecisionLog, log_records, read_log
from torch_softucb.recommend.log.parquet import padded, read_segment, seal_segment
from torch_softucb.recommend.log.segments import is_sealed, segment_path


@pytest.fixture
def folder(tmp_path):
    with DecisionLog(tmp_path / "log") as log:
        fill(log, head(users=20), steps=4)
    return tmp_path / "log"


def test_sealing_keeps_every_record_and_its_order(folder):
    before = list(log_records(folder))
    seal_segment(folder, 1)
    assert is_sealed(folder, 1)
    assert not segment_path(folder, 1).exists()
    after = list(log_records(folder))
    assert [record_type for record_type, _ in after] == [record_type for record_type, _ in before]
    for (_, want), (record_type, got) in zip(before, after, strict=True):
        for name, values in want.items():
            shown = got[name][:, : values.shape[1]] if name in ("candidates", "features") else got[name]
            np.testing.assert_array_equal(shown, values, err_msg=f"{record_type}: {name}")


def test_a_crash_between_the_files_and_the_journal_s_removal_loses_and_doubles_nothing(folder):
    journal, want = segment_path(folder, 1).read_bytes(), read_log(folder)
    seal_segment(folder, 1)
    segment_path(folder, 1).write_bytes(journal)  # as if it had never been removed
    got = read_log(folder)
    assert got.id.equal(want.id)
    with DecisionLog(folder) as log:
        log.seal()
    assert read_log(folder).id.equal(want.id)


def test_a_segment_without_rewards_is_sealed_too(tmp_path):
    ours = head()
    with DecisionLog(tmp_path) as log:
        log.decisions(ours.serve(ours(torch.tensor([1]), torch.tensor([[2, 3]]))))
        log.seal()
    segment = read_segment(tmp_path, 1)
    assert segment["rewards"] == []
    assert segment["decisions"][0]["id"].tolist() == [0]
    assert pq.read_schema(tmp_path / "00000001.rewards.parquet").names == ["record", "id", "reward"]


def test_lists_are_padded_at_their_end():
    got = padded(np.array([1, 2, 3, 4]), np.array([1, 0, 3]), -1)
    assert got.tolist() == [[1, -1, -1], [-1, -1, -1], [2, 3, 4]]
    assert padded(np.zeros(0), np.zeros(0, int), 0.0).shape == (0, 0)


def test_without_pyarrow_the_error_names_what_to_install(folder, tmp_path):
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
    table = tmp_path / "table.parquet"
    done = subprocess.run([sys.executable, "-c", script, folder, table], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    need = "Parquet files need pyarrow, which is not installed; use `pip install pyarrow`"
    assert done.stdout.splitlines() == ["20", f"DecisionLog.seal: {need}", f"read_decisions: {need}"]
