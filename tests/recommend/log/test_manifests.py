"""The small files of a log: whole, checked and private."""

import json

import pytest

from torch_softucb.recommend import JournalError
from torch_softucb.recommend.log.manifests import Durable, Sealed, load_durable, load_sealed, save_durable, save_sealed

SEALED = Sealed("ab" * 16, 3, 5, {"decisions": 4, "rewards": 2}, {"decisions": "d", "rewards": "r"})


def test_what_is_written_comes_back(tmp_path):
    durable = Durable("ab" * 16, 3, 5, 600, [[1, 4], [9, 10]])
    save_durable(tmp_path, durable)
    assert load_durable(tmp_path) == durable
    save_sealed(tmp_path / "a.json", SEALED)
    assert load_sealed(tmp_path / "a.json", durable, 3) == SEALED
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_every_new_log_has_another_id(tmp_path):
    (tmp_path / "b").mkdir()
    one, other = load_durable(tmp_path, create=True), load_durable(tmp_path / "b", create=True)
    assert load_durable(tmp_path, create=True) == one
    assert one.log != other.log
    assert one[1:4] == (0, 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "nonsense",
        "[" * 100_000,
        '{"log": 1}',
        b"\xff\xfe\x00",
        '{"log": "' + "ab" * 16 + '", "checksum": "1"}',
    ],
)
def test_what_is_no_manifest_is_named(text, tmp_path):
    (tmp_path / "log.json").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(JournalError, match=r"log\.json: .* salvage_log"):
        load_durable(tmp_path)
    with pytest.raises(JournalError, match=r"log\.json: .* salvage_log"):
        load_sealed(tmp_path / "log.json", Durable("ab" * 16), 1)


@pytest.mark.parametrize(
    "change",
    [{"log": "x" * 32}, {"segment": -1}, {"records": 1.5}, {"size": True}, {"ids": [[1]]}, {"ids": [["a", 2]]}, {"ids": 3}],
)
def test_impossible_values_are_refused_though_the_checksum_fits(change, tmp_path):
    save_durable(tmp_path, Durable("ab" * 16)._replace(**change))
    with pytest.raises(JournalError, match="does not hold what it should"):
        load_durable(tmp_path)


def test_a_changed_value_is_noticed(tmp_path):
    save_durable(tmp_path, Durable("ab" * 16, 3, 5, 600))
    values = json.loads((tmp_path / "log.json").read_text())
    (tmp_path / "log.json").write_text(json.dumps(values | {"size": 500}))
    with pytest.raises(JournalError, match="does not hold what it should"):
        load_durable(tmp_path)


def test_a_manifest_of_another_log_or_segment_is_refused(tmp_path):
    save_sealed(tmp_path / "a.json", SEALED)
    for log, number in (("cd" * 16, 3), ("ab" * 16, 4)):
        with pytest.raises(JournalError, match="files of several logs were mixed"):
            load_sealed(tmp_path / "a.json", Durable(log), number)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": {"decisions": -1, "rewards": 2}},
        {"rows": {"decisions": 4}},
        {"rows": [4, 2]},
        {"sha256": "dr"},
        {"sha256": {"decisions": "d"}},
        {"records": -1},
        {"records": 5.0},
    ],
)
def test_an_impossible_manifest_of_a_segment_is_refused_though_the_checksum_fits(change, tmp_path):
    save_sealed(tmp_path / "a.json", SEALED._replace(**change))
    with pytest.raises(JournalError, match="does not hold what it should"):
        load_sealed(tmp_path / "a.json", Durable("ab" * 16), 3)
