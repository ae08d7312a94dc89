"""Atomic files: the old contents or the new ones, durable where the platform allows it, no temporary files left."""

import os
import signal
import subprocess
import sys

import pytest

from torch_softucb import atomic_io
from torch_softucb.atomic_io import sync_folder, unreadable_file, whole_file


def _write(path, content):
    with whole_file(path) as file:
        file.write(content)


def _fail_halfway(path):
    with whole_file(path) as file:
        file.write(b"new")
        raise RuntimeError("halfway")


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_new_and_replaced_files(tmp_path):
    target = tmp_path / "a[1] *.bin"  # a name that is also a pattern
    for content in (b"first", b"second, longer", b""):
        _write(target, content)
        assert target.read_bytes() == content
    _write(str(tmp_path / "b"), b"a path as text")
    assert _names(tmp_path) == ["a[1] *.bin", "b"]


def test_the_old_file_stays_until_the_block_ends(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    with whole_file(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("old", [b"old", None])
def test_an_exception_leaves_what_was_there(old, tmp_path):
    target = tmp_path / "a"
    if old is not None:
        target.write_bytes(old)
    with pytest.raises(RuntimeError, match="halfway"):
        _fail_halfway(target)
    assert _names(tmp_path) == ([] if old is None else ["a"])
    assert old is None or target.read_bytes() == old


def test_the_file_and_then_its_folder_are_synced(tmp_path, monkeypatch):
    """The data before the rename, or a crash could leave an empty file under the new name; the folder after it."""
    events, target = [], tmp_path / "a"
    real = os.fsync

    def fsync(handle):
        folder = os.path.isdir(f"/proc/self/fd/{handle}") if os.path.exists("/proc/self/fd") else target.exists()
        events.append(("folder" if folder else "file", target.exists()))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    _write(target, b"x")
    assert events == [("file", False), ("folder", True)]


def test_leftovers_of_killed_processes_are_removed_and_nothing_else(tmp_path):
    script = (
        "import os, signal, sys\nfrom torch_softucb.atomic_io import whole_file\n"
        "with whole_file(sys.argv[1]) as file:\n    file.write(b'half')\n    file.flush()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    target = tmp_path / "a[1]"
    done = subprocess.run([sys.executable, "-c", script, str(target)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(_names(tmp_path)) == 1
    assert not target.exists()
    for other in (".b.12.tmp", ".a1.12.tmp", "a[1].tmp"):
        (tmp_path / other).write_bytes(b"")
    _write(target, b"whole")
    assert _names(tmp_path) == sorted([".b.12.tmp", ".a1.12.tmp", "a[1].tmp", "a[1]"])


def _refuse_folders(monkeypatch):
    """os.open as on Windows: PermissionError for a folder."""
    real = os.open

    def refuse(path, *rest, **named):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *rest, **named)

    monkeypatch.setattr(os, "open", refuse)


def test_where_folders_cannot_be_opened_files_are_written_all_the_same(tmp_path, monkeypatch):
    _refuse_folders(monkeypatch)
    monkeypatch.setattr(atomic_io, "_CAN_SYNC_FOLDERS", False)
    _write(tmp_path / "a", b"x")
    assert (tmp_path / "a").read_bytes() == b"x"
    assert _names(tmp_path) == ["a"]


def test_elsewhere_a_folder_that_cannot_be_synced_is_an_error(tmp_path, monkeypatch):
    sync_folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "none")
    _refuse_folders(monkeypatch)
    with pytest.raises(PermissionError):
        sync_folder(tmp_path)


@pytest.mark.parametrize(
    ("error", "reason"), [(ValueError("first line\nsecond line"), "first line"), (EOFError(), "EOFError")]
)
def test_unreadable_files_are_named_with_the_reason(error, reason, tmp_path):
    text = str(unreadable_file(tmp_path / "a.ckpt", error))
    assert text.startswith(f"{tmp_path / 'a.ckpt'}: cannot be read ({reason}); ")
    assert "\n" not in text
