"""One segment, as a journal and sealed."""

import numpy as np
import pytest

from tests.recommend.cases import fill, head
from torch_softucb.errors import LogWarning
from torch_softucb.recommend import DecisionLog, JournalError, read_log
from torch_softucb.recommend.log import segment_reader
from torch_softucb.recommend.log.codec import encode_columns
from torch_softucb.recommend.log.journal import Journal
from torch_softucb.recommend.log.manifests import load_durable
from torch_softucb.recommend.log.segment_reader import by_record, read_chunks
from torch_softucb.recommend.log.segments import is_sealed, segment_path


def _filled(folder, seal):
    with DecisionLog(folder) as log:
        fill(log, head(), steps=4)
        if seal:
            log.seal()
    return folder, load_durable(folder)


def test_chunks_of_a_sealed_segment_are_its_records_again(tmp_path):
    journal = list(by_record(read_chunks(*_at(_filled(tmp_path / "a", False)), last=True)))
    sealed = list(by_record(read_chunks(*_at(_filled(tmp_path / "b", True)), last=False)))
    assert [kind for kind, _ in journal] == [kind for kind, _ in sealed]
    assert all(np.array_equal(one["id"], other["id"]) for (_, one), (_, other) in zip(journal, sealed, strict=True))


def _at(filled):
    folder, durable = filled
    return folder, 1, durable


def test_a_segment_that_is_sealed_while_it_is_read_is_read_from_its_parquet_files(tmp_path, monkeypatch):
    folder, durable = _filled(tmp_path, True)
    answers = iter([False, True])
    monkeypatch.setattr(segment_reader, "is_sealed", lambda *_: next(answers, True))
    assert (
        sum(len(columns["id"]) for kind, columns in read_chunks(folder, 1, durable, last=False) if kind == "decisions") == 20
    )
    assert is_sealed(folder, 1)


def test_an_incomplete_commit_at_the_end_is_left_out_with_a_warning(tmp_path):
    log = DecisionLog(tmp_path, group=1)
    fill(log, head(), steps=2)
    size = log._files._active[1].end.size
    log._files.release()  # as a crash does
    with open(segment_path(tmp_path, 1), "r+b") as file:
        file.truncate(size - 5)
    with pytest.warns(LogWarning, match=r"00000001\.journal: its last commit is incomplete and left out: \d+ bytes"):
        got = read_log(tmp_path)
    assert len(got.id) == 10
    assert len(got.rewarded.id) == 3


def test_a_sealed_segment_with_fewer_records_than_were_durable_is_refused(tmp_path):
    folder, durable = _filled(tmp_path, True)
    with pytest.raises(JournalError, match="segment 1 has 8 records, but 9 were durable"):
        read_chunks(folder, 1, durable._replace(segment=1, records=9), last=False)


@pytest.mark.parametrize("bad", [b"", b"X", b"D123", b"R" + b"\xff" * 8, b"D" + b"\x7f" * 33 + b"8"])
def test_a_record_that_lies_about_its_size_is_named(bad, tmp_path):
    log = DecisionLog(tmp_path)
    fill(log, head(), steps=1)
    log.close()
    durable = load_durable(tmp_path)
    journal = Journal(segment_path(tmp_path, 1), log=bytes.fromhex(durable.log), segment=1)
    journal.commit([encode_columns("rewards", {"id": np.zeros(1, int), "reward": np.zeros(1)}), bad], ticket=0)
    journal.close()
    with pytest.raises(JournalError, match=r"00000001\.journal: record 3: a record of \d+ bytes does not have the contents"):
        read_log(tmp_path)


def test_a_sealed_segment_with_exactly_the_durable_records_is_read(tmp_path):
    folder, durable = _filled(tmp_path, True)
    assert read_chunks(folder, 1, durable._replace(segment=1, records=8), last=False)
