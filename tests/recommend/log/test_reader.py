"""Decisions from a folder, a sealed segment and a Parquet table: the same tensors, and clear errors."""

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from tests.recommend.cases import fill, head
from torch_softucb import synthetic_problem
from torch_softucb.from_logs.synthetic_log import epsilon_greedy_log
from torch_softucb.recommend import (
    DecisionLog,
    JournalError,
    LoggedDecisions,
    Place,
    Served,
    log_records,
    read_decisions,
    read_log,
)
from torch_softucb.recommend.log import _checks
from torch_softucb.recommend.log.codec import Entry, encode_decisions
from torch_softucb.recommend.log.log_files import LogFiles


@pytest.fixture
def folder(tmp_path, seeded):
    problem = synthetic_problem(num_problems=1, num_arms=4, dim=3, generator=seeded(0), dtype=torch.double)[0]
    epsilon_greedy_log(tmp_path / "log", problem, decisions=60, batch=10, features=True)
    return tmp_path / "log"


def _same(got, want, names=LoggedDecisions._fields):
    for name in names:
        torch.testing.assert_close(getattr(got, name), getattr(want, name), rtol=0, atol=0, equal_nan=True)


def test_folder_segment_and_table_are_one(folder, tmp_path):
    want = read_log(folder)
    _same(read_decisions(folder), want)
    _same(read_decisions(folder / "00000001.decisions.parquet"), want)
    table = pd.read_parquet(folder / "00000001.decisions.parquet")
    table["reward"] = want.reward.tolist()
    table.to_parquet(tmp_path / "flat.parquet")
    _same(read_decisions(tmp_path / "flat.parquet"), want)
    table["features"] = [[row[i : i + 3] for i in range(0, 12, 3)] for row in table["features"]]  # nested
    table[["x", "arm", "propensity", "reward", "features"]].to_parquet(tmp_path / "nested.parquet")
    got = read_decisions(tmp_path / "nested.parquet")
    _same(got, want, ("x", "arm", "propensity", "reward", "features", "candidates", "bandit", "position"))
    assert got.id.tolist() == list(range(60))


def test_rewards_that_came_in_a_later_segment_are_found(tmp_path, seeded):
    problem = synthetic_problem(num_problems=1, num_arms=4, dim=3, generator=seeded(0))[0]
    epsilon_greedy_log(tmp_path, problem, decisions=20, batch=10)
    rewards = pq.read_table(tmp_path / "00000001.rewards.parquet")
    (tmp_path / "00000001.manifest.json").unlink()
    pq.write_table(rewards.slice(0, 5), tmp_path / "00000001.rewards.parquet")
    pq.write_table(rewards.slice(5), tmp_path / "00000002.rewards.parquet")
    assert not read_decisions(tmp_path / "00000001.decisions.parquet").reward.isnan().any()


def test_what_is_no_log_is_named(folder, tmp_path):
    with pytest.raises(ValueError, match="nothing is not there; give a decision log's folder"):
        read_decisions(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"holds rewards; give the .decisions.parquet file next to it"):
        read_decisions(folder / "00000001.rewards.parquet")
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        read_decisions(tmp_path / "text.parquet")
    (folder / "00000001.rewards.parquet").unlink()
    with pytest.raises(ValueError, match="got none named reward"):
        read_decisions(folder / "00000001.decisions.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no decision in"):
        read_decisions(tmp_path / "empty")


def test_records_after_a_place(tmp_path):
    with DecisionLog(tmp_path) as log:
        fill(log, head(), steps=3)
    assert [kind for kind, _ in log_records(tmp_path, Place(1, 3))] == ["rewards", "decisions", "rewards"]


def _served(ids, candidates):
    ids = torch.as_tensor(ids)
    probability, zeros = torch.full((len(ids),), 0.5), torch.zeros_like(ids)
    return Served(ids, zeros, probability, torch.ones(len(ids), 2), None, None, None, None, candidates)


def test_one_long_candidate_list_does_not_pad_all_rows_unasked(tmp_path):
    with DecisionLog(tmp_path) as log:
        log.decisions(_served(range(2000), 3), candidates=torch.arange(3))
        log.decisions(_served([9000], 50_000), candidates=torch.arange(50_000))
    with pytest.raises(ValueError, match=r"as long as the longest, the log takes \d+ bytes, more than \d+; pass max_bytes="):
        read_log(tmp_path)
    assert len(list(log_records(tmp_path))) == 2
    assert read_log(tmp_path, max_bytes=10**9).candidates.shape == (2001, 50_000)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"id": [5, 5]}, r"decision 5 is in .* twice, so that its reward is ambiguous"),
        ({"propensity": [0.5, 2.0]}, r"propensity must be in \(0, 1\], got 2.0 for decision 6"),
        ({"propensity": [0.5, float("nan")]}, r"propensity must be in \(0, 1\], got nan for decision 6"),
        ({"arm": [0, 3]}, r"arm must be one of the candidates, got 3 for decision 6"),
        ({"arm": [-1, 1]}, r"arm must be one of the candidates, got -1 for decision 5"),
    ],
)
def test_impossible_decisions_in_a_log_are_refused(change, match, tmp_path):
    served = _served([5, 6], 3)._replace(**{name: torch.tensor(values) for name, values in change.items()})
    files = LogFiles(tmp_path)  # a writer without checks
    files.commit([encode_decisions([Entry(served, 0, None, torch.arange(3), None)])], ticket=1)
    files.close()
    with pytest.raises(ValueError, match=match):
        read_log(tmp_path)


@pytest.mark.parametrize("place", [Place(1, -1), Place(2, 0), Place(0, -1), Place(1, 7)])
def test_a_place_that_is_not_in_the_log_is_refused(place, tmp_path):
    with DecisionLog(tmp_path) as log:
        fill(log, head(), steps=3)
    with pytest.raises(ValueError, match="is not in the log"):
        list(log_records(tmp_path, place))
    assert list(log_records(tmp_path, Place(1, 6))) == []
    assert len(list(log_records(tmp_path, Place(0, 0)))) == 6


def test_a_propensity_of_exactly_1_is_written_and_read(tmp_path):
    with DecisionLog(tmp_path) as log:
        log.decisions(_served([5, 6], 3)._replace(propensity=torch.ones(2)), candidates=torch.arange(3))
    assert read_log(tmp_path).propensity.tolist() == [1.0, 1.0]


def test_the_memory_of_a_log_is_that_of_its_tensors(tmp_path, monkeypatch):
    """By default it may be twice the size of the files, above a fixed number of bytes."""
    with DecisionLog(tmp_path) as log:
        fill(log, head(), steps=6)
    want = read_log(tmp_path)
    size = sum(8 * column.numel() for column in want)
    _same(read_log(tmp_path, max_bytes=size), want)
    with pytest.raises(ValueError, match=rf"the log takes {size} bytes, more than {size - 1}; pass max_bytes={size} "):
        read_log(tmp_path, max_bytes=size - 1)
    files = sum(path.stat().st_size for path in tmp_path.glob("*.journal"))
    assert files < size < 2 * files
    monkeypatch.setattr(_checks, "SPARE_BYTES", 0)
    _same(read_log(tmp_path), want)


def test_a_sealed_file_that_is_read_alone_must_be_that_of_its_manifest(folder):
    path = folder / "00000001.decisions.parquet"
    pq.write_table(pq.read_table(path).slice(1), path, use_dictionary=False)  # intact, but one decision is gone
    with pytest.raises(JournalError, match="its SHA-256 is not that of the manifest"):
        read_decisions(path)
