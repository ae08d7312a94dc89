"""What is intact in a damaged log is read, and what is not is named."""

import pytest

from tests.recommend.cases import fill, head
from torch_softucb.recommend import DecisionLog, JournalError, log_records, read_log, restart, salvage_log
from torch_softucb.recommend.log.journal import read_journal
from torch_softucb.recommend.log.segments import parquet_path, segment_path


@pytest.fixture
def folder(tmp_path):
    """A sealed segment of 10 decisions, and a journal of 100 in 40 groups."""
    ours = head()
    with DecisionLog(tmp_path / "log", group=1) as log:
        fill(log, ours, steps=2)
        log.seal()
        fill(log, ours, steps=20, seed=5)
    return tmp_path / "log"


def _ids(records):
    return [id for kind, columns in records if kind == "decisions" for id in columns["id"].tolist()]


def _flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def test_an_intact_log_is_read_whole(folder):
    salvaged = salvage_log(folder)
    assert salvaged.skipped == []
    assert _ids(salvaged.records) == read_log(folder).id.tolist()


@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_one_flipped_bit_costs_one_group(where, folder, tmp_path):
    path = segment_path(folder, 2)
    end = read_journal(path).end
    whole = list(log_records(folder))
    _flip(path, {"first": 100, "middle": end.size // 2, "last": end.last - 30}[where])
    for call in (lambda: read_log(folder), lambda: restart(head(), folder), lambda: DecisionLog(folder)):
        with pytest.raises(JournalError, match="salvage_log"):
            call()
    before = path.read_bytes()
    salvaged = salvage_log(folder, tmp_path / "new")
    assert path.read_bytes() == before
    assert len(salvaged.records) == len(whole) - 1
    (skipped,) = salvaged.skipped
    assert (skipped.segment, skipped.file) == (2, path.name)
    assert "records, is damaged" in skipped.reason or skipped.reason == "no intact group"
    assert 0 < skipped.stop - skipped.start < 2500
    assert [kind for kind, _ in log_records(tmp_path / "new")] == [kind for kind, _ in salvaged.records]
    again = head()
    restart(again, tmp_path / "new")
    with DecisionLog(tmp_path / "new") as log:  # the service can start
        fill(log, again, steps=1)
    assert read_log(tmp_path / "new").id.tolist()[:-5] == _ids(salvaged.records)


def test_a_damaged_header_costs_no_records(folder):
    path = segment_path(folder, 2)
    for at in (0, 10, 30):  # magic, id, checksum
        _flip(path, at)
        salvaged = salvage_log(folder)
        assert [(part.start, part.stop) for part in salvaged.skipped] == [(0, 32)]
        assert len(salvaged.records) == 44
        _flip(path, at)


def test_a_damaged_parquet_file_is_skipped_and_the_other_one_read(folder):
    _flip(parquet_path(folder, 1, "decisions"), 300)
    salvaged = salvage_log(folder)
    assert [part.file for part in salvaged.skipped] == ["00000001.decisions.parquet"]
    assert len(salvaged.records) == 42
    (folder / "00000001.manifest.json").unlink()
    (folder / "log.json").unlink()
    assert len(salvage_log(folder).records) == 42


def test_a_missing_segment_is_named(folder):
    for path in folder.glob("00000001.*"):
        path.unlink()
    salvaged = salvage_log(folder)
    assert len(salvaged.records) == 40
    assert {(part.segment, part.file) for part in salvaged.skipped} == {
        (1, "00000001.decisions.parquet"),
        (1, "00000001.rewards.parquet"),
    }


def test_a_target_with_files_is_refused(folder):
    with pytest.raises(ValueError, match="target must be an empty folder"):
        salvage_log(folder, folder)


def test_a_damaged_sealed_file_is_named_from_its_first_byte_to_its_last(folder):
    path = parquet_path(folder, 1, "decisions")
    _flip(path, path.stat().st_size // 2)
    (skipped,) = [part for part in salvage_log(folder).skipped if part.file == path.name]
    assert (skipped.segment, skipped.start, skipped.stop) == (1, 0, path.stat().st_size)
