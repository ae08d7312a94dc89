"""Safetensors with a checksum over every byte."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from torch_softucb.checked_files import load_tensors, save_tensors

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(3)}


def test_tensors_and_texts_come_back_through_ours_and_through_plain_safetensors(tmp_path):
    notes = {"note": 'a text with "quotes", "sha256":"' + "0" * 64 + '"'}
    save_tensors(tmp_path / "a", TENSORS, notes)
    tensors, metadata = load_tensors(tmp_path / "a")
    assert metadata == notes
    for back in (tensors, load_file(tmp_path / "a")):
        assert all(back[name].equal(value) for name, value in TENSORS.items())
    with safe_open(tmp_path / "a", framework="pt") as file:
        assert file.metadata()["note"] == notes["note"]


def test_every_flipped_bit_and_every_cut_is_refused_by_name(tmp_path):
    save_tensors(tmp_path / "a", TENSORS, {"note": "x"})
    whole = (tmp_path / "a").read_bytes()
    for position in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[position // 8] ^= 1 << position % 8
        (tmp_path / "b").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"b: cannot be read \((sha256|it is|it has|its header)"):
            load_tensors(tmp_path / "b")
    for length in range(len(whole)):
        (tmp_path / "b").write_bytes(whole[:length])
        with pytest.raises(ValueError, match="b: cannot be read"):
            load_tensors(tmp_path / "b")


def test_sizes_are_checked_before_tensors_are_allocated(tmp_path):
    save_tensors(tmp_path / "a", TENSORS, {"note": "x"})
    seen = {}

    def check(metadata, shapes):
        seen.update(shapes)
        raise ValueError("not these")

    with pytest.raises(ValueError, match="not these"):
        load_tensors(tmp_path / "a", check)
    assert seen == {"a": (2, 3), "b": ()}


def test_a_file_of_another_program_can_be_accepted_without_a_checksum(tmp_path):
    for metadata in (None, {"made": "elsewhere"}):
        save_file(TENSORS, tmp_path / "plain", metadata=metadata)
        tensors, found = load_tensors(tmp_path / "plain", checksum=False)
        assert found == (metadata or {})
        assert all(tensors[name].equal(value) for name, value in TENSORS.items())
    save_tensors(tmp_path / "ours", TENSORS, {})
    damaged = bytearray((tmp_path / "ours").read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "ours").write_bytes(damaged)
    with pytest.raises(ValueError, match="sha256 does not match"):
        load_tensors(tmp_path / "ours", checksum=False)


def test_files_without_checksum_and_large_headers_are_refused(tmp_path):
    save_file(TENSORS, tmp_path / "plain")
    with pytest.raises(ValueError, match=r"plain: cannot be read \(it has no sha256"):
        load_tensors(tmp_path / "plain")
    with pytest.raises(ValueError, match="names and notes must take at most"):
        save_tensors(tmp_path / "large", TENSORS, {"note": "x" * (2 << 20)})
    assert not (tmp_path / "large").exists()


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [10**9, 0], "data_offsets": [0, 0]}},
        {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": "1", "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 400]}},
        {"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"a": 3},
        {"__metadata__": {"sha256": "0" * 64, "n": 3}},
        [],
    ],
)
def test_lies_in_the_header_are_refused_by_name(header, tmp_path):
    """With a valid checksum, as an attacker would write it."""
    if isinstance(header, dict):
        header = {"__metadata__": {"sha256": "0" * 64}} | header
    text = json.dumps(header, separators=(",", ":")).encode()
    forge(tmp_path / "forged", text, bytes(4))
    with pytest.raises(ValueError, match="forged: cannot be read"):
        load_tensors(tmp_path / "forged")


def test_names_that_repeat_are_refused(tmp_path):
    entry = '"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    text = '{"__metadata__":{"sha256":"' + "0" * 64 + '"},' + entry + "," + entry + "}"
    forge(tmp_path / "forged", text.encode(), bytes(4))
    with pytest.raises(ValueError, match="a name twice"):
        load_tensors(tmp_path / "forged")


def forge(path, header, data):
    """Write a header and data with the checksum that belongs to them."""
    import hashlib

    whole = len(header).to_bytes(8, "little") + header + data
    path.write_bytes(whole.replace(b"0" * 64, hashlib.sha256(whole).hexdigest().encode(), 1))
