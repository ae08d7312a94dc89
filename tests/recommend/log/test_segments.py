"""Names of the files of a log."""

from torch_softucb.recommend.log.segments import Place, is_sealed, parquet_path, segment_path, segments


def test_names_are_numbers_of_eight_digits(tmp_path):
    assert segment_path(tmp_path, 12).name == "00000012.journal"
    assert parquet_path(tmp_path, 12, "rewards").name == "00000012.rewards.parquet"


def test_a_segment_counts_once_whatever_files_it_has(tmp_path):
    for name in ("00000010.journal", "00000002.decisions.parquet", "00000002.rewards.parquet", "00000003.torn"):
        (tmp_path / name).touch()
    for other in ("head.pt", "checkpoint.json", "abcdefgh.journal", "1.journal"):
        (tmp_path / other).touch()
    assert segments(tmp_path) == [2, 3, 10]
    assert segments(tmp_path / "nothing") == []


def test_sealed_means_both_parquet_files(tmp_path):
    parquet_path(tmp_path, 1, "decisions").touch()
    assert not is_sealed(tmp_path, 1)  # a crash while sealing: the journal is still the segment
    parquet_path(tmp_path, 1, "rewards").touch()
    assert is_sealed(tmp_path, 1)


def test_places_are_ordered_by_segment_then_record():
    assert Place(1, 9) < Place(2, 0) < Place(2, 1)
