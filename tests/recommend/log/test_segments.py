"""Names of the files of a log."""

import pytest

from torch_softucb.recommend import JournalError
from torch_softucb.recommend.log.manifests import Durable
from torch_softucb.recommend.log.segments import (
    Place,
    complete_segments,
    is_sealed,
    log_bytes,
    manifest_path,
    parquet_path,
    segment_path,
    segments,
)


def test_names_are_numbers_of_eight_digits(tmp_path):
    assert segment_path(tmp_path, 12).name == "00000012.journal"
    assert parquet_path(tmp_path, 12, "rewards").name == "00000012.rewards.parquet"
    assert manifest_path(tmp_path, 12).name == "00000012.manifest.json"


def test_a_segment_counts_once_and_stray_files_do_not_count(tmp_path):
    for name in ("00000010.journal", "00000002.manifest.json", "00000002.journal"):
        (tmp_path / name).write_text("1234")
    for other in (
        "head.pt",
        "lock",
        "log.json",
        "abcdefgh.journal",
        "1.journal",
        "00000007.bak",
        "99999999.x",
        "00000003.torn",
    ):
        (tmp_path / other).write_text("1234")
    assert segments(tmp_path) == [2, 10]
    assert segments(tmp_path / "nothing") == []
    assert log_bytes(tmp_path) == 16


def test_missing_segments_are_named(tmp_path):
    for number in (1, 2, 4):
        segment_path(tmp_path, number).touch()
    durable = Durable("0" * 32, segment=2)
    with pytest.raises(JournalError, match=r"segment 3 of 4 missing; restore the files, or .* salvage_log"):
        complete_segments(tmp_path, durable)
    segment_path(tmp_path, 4).unlink()
    assert complete_segments(tmp_path, durable) == [1, 2]
    with pytest.raises(JournalError, match="segments 3, 4 of 4 missing"):
        complete_segments(tmp_path, durable._replace(segment=4))


def test_sealed_means_that_the_manifest_is_there(tmp_path):
    parquet_path(tmp_path, 1, "decisions").touch()
    parquet_path(tmp_path, 1, "rewards").touch()
    assert not is_sealed(tmp_path, 1)  # a crash while sealing: the journal is still the segment
    manifest_path(tmp_path, 1).touch()
    assert is_sealed(tmp_path, 1)


def test_places_are_ordered_by_segment_then_record():
    assert Place(1, 9) < Place(2, 0) < Place(2, 1)
