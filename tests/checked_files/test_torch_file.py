"""Files of torch.save with a checksum: any damage is refused by name, and plain torch still reads them."""

import io
import os
import warnings

import pytest
import torch

from torch_softucb.checked_files import add_checksum, load_checked, open_checked, save_checked

STATE = {
    "network": torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).state_dict(),
    "plain": [1, -7, 2**40, 2**100, 2.5, None, True, "text", (1, (2, "x"))],
    "tensors": [torch.arange(20.0).view(4, 5).T[1:], torch.empty(0, 3), torch.zeros(2, dtype=torch.bool), torch.ones(())],
    "expanded": torch.ones(()).expand(50),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "about": [torch.float32, torch.Size([2, 3])],
    7: torch.get_rng_state()[:9],
}


def test_plain_data_and_tensors_come_back_through_ours_and_through_plain_torch(tmp_path):
    save_checked(tmp_path / "a.pt", STATE)
    for back in (load_checked(tmp_path / "a.pt"), torch.load(tmp_path / "a.pt", weights_only=True)):
        assert back["plain"] == STATE["plain"]
        assert back["about"] == STATE["about"]
        assert list(back) == list(STATE)
        assert all(back["network"][name].equal(value) for name, value in STATE["network"].items())
        assert all(a.equal(b) for a, b in zip(back["tensors"], STATE["tensors"], strict=True))
        assert back["expanded"].equal(STATE["expanded"])
        assert isinstance(back["parameter"], torch.nn.Parameter)
    with open_checked(tmp_path / "a.pt") as file:
        assert torch.load(file, weights_only=True)["plain"] == STATE["plain"]


def test_a_flip_in_any_byte_and_every_cut_is_refused_by_name(tmp_path):
    save_checked(tmp_path / "a.pt", {"x": torch.ones(3)})
    whole = (tmp_path / "a.pt").read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        (tmp_path / "b.pt").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"b.pt: cannot be read \((sha256 does not match|it does not end with)"):
            load_checked(tmp_path / "b.pt")
    for length in range(len(whole)):
        (tmp_path / "b.pt").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"b.pt: cannot be read"):
            load_checked(tmp_path / "b.pt")


def test_a_file_without_checksum_is_refused_until_its_owner_adds_one(tmp_path):
    torch.save(STATE, tmp_path / "plain.pt")
    with pytest.raises(ValueError, match=r"plain.pt: cannot be read \(it does not end with a checksum.*add_checksum"):
        load_checked(tmp_path / "plain.pt")
    add_checksum(tmp_path / "plain.pt")
    once = (tmp_path / "plain.pt").read_bytes()
    add_checksum(tmp_path / "plain.pt")
    assert (tmp_path / "plain.pt").read_bytes() == once
    assert load_checked(tmp_path / "plain.pt")["plain"] == STATE["plain"]
    (tmp_path / "plain.pt").write_bytes(once[:100] + b"?" + once[101:])
    with pytest.raises(ValueError, match="sha256 does not match"):
        add_checksum(tmp_path / "plain.pt")
    (tmp_path / "text").write_text("no archive")
    for name in ("text", "nothing"):
        with pytest.raises(ValueError, match=f"{name}: cannot be read"):
            add_checksum(tmp_path / name)


@pytest.mark.parametrize("value", [{1, 2}, 1j, b"bytes", torch.eye(2).to_sparse(), torch.ones(()).expand(2**40), range(3)])
def test_what_could_not_be_loaded_is_not_saved(value, tmp_path):
    save_checked(tmp_path / "a.pt", {"x": 1})
    with pytest.raises(ValueError, match=r"a.pt: cannot be saved \(its pickle .*\); nothing was written"):
        save_checked(tmp_path / "a.pt", {"x": value})
    assert load_checked(tmp_path / "a.pt") == {"x": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_missing_and_odd_files_are_named(tmp_path):
    (tmp_path / "empty").touch()
    for name in ("", "empty", "nothing"):
        with pytest.raises(ValueError, match="cannot be read"):
            load_checked(tmp_path / name)


def test_forged_archives_are_refused_before_memory_is_allocated(tmp_path):
    """A recomputed checksum does not make a compressed archive or a call acceptable."""

    class Call:
        def __init__(self, *call):
            self.call = call

        def __reduce__(self):
            return self.call

    for value in (Call(bytearray, (10**12,)), Call(torch.FloatStorage, (10**12,)), Call(os.mkdir, (str(tmp_path / "x"),))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.save({"x": value}, tmp_path / "forged.pt")
        with pytest.raises(ValueError, match=r"forged.pt: cannot be read \(its pickle (names|calls)"):
            add_checksum(tmp_path / "forged.pt")
    assert not (tmp_path / "x").exists()


def test_the_order_of_reading_and_writing_does_not_matter(tmp_path):
    buffer = io.BytesIO()
    torch.save(STATE, buffer)
    save_checked(tmp_path / "a.pt", STATE)
    whole = (tmp_path / "a.pt").read_bytes()
    assert len(whole) == len(buffer.getvalue()) + 64 + len(b"torch_softucb sha256 ")
