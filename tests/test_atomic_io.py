"""Atomic files: the old contents or the new ones, durable where the platform allows it, no temporary files left."""

import os
import signal
import stat
import subprocess
import sys
import threading

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


def test_the_temporary_file_of_a_live_writer_stays(tmp_path):
    with whole_file(tmp_path / "a") as file:
        file.write(b"slow")
        _write(tmp_path / "a", b"quick")
    assert (tmp_path / "a").read_bytes() == b"slow"
    assert _names(tmp_path) == ["a"]


def test_many_threads_write_one_path(tmp_path):
    """Every save succeeds, every read finds one of the contents, whole."""
    target, contents, failures = tmp_path / "a", [bytes([i]) * 5000 for i in range(4)], []
    _write(target, contents[0])

    def save(content):
        try:
            for _ in range(50):
                _write(target, content)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=save, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert target.read_bytes() in contents
    assert not failures
    assert _names(tmp_path) == ["a"]


@pytest.mark.slow
def test_many_processes_write_one_path(tmp_path):
    script = (
        "import sys\nfrom torch_softucb.atomic_io import whole_file\n"
        "for _ in range(200):\n    with whole_file(sys.argv[1]) as file:\n        file.write(sys.argv[2].encode() * 5000)"
    )
    target = tmp_path / "a"
    running = [subprocess.Popen([sys.executable, "-c", script, str(target), letter]) for letter in "xyz"]
    while any(process.poll() is None for process in running):
        if target.exists():
            assert target.read_bytes() in {letter * 5000 for letter in (b"x", b"y", b"z")}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert _names(tmp_path) == ["a"]


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_new_files_are_private_and_modes_are_kept(tmp_path):
    target = tmp_path / "a"
    old = os.umask(0)
    try:
        _write(target, b"x")
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        for mode in (0o644, 0o640, 0o600):
            target.chmod(mode)
            _write(target, b"y")
            assert stat.S_IMODE(target.stat().st_mode) == mode
    finally:
        os.umask(old)


def test_a_link_is_followed_for_the_target_and_never_for_the_temporary_file(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    real, link, victim = tmp_path / "folder" / "real", tmp_path / "link", tmp_path / "victim"
    real.write_bytes(b"old")
    link.symlink_to(real)
    victim.write_bytes(b"precious")
    _write(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    monkeypatch.setattr(atomic_io.secrets, "token_hex", lambda _: "guessed")
    (tmp_path / "folder" / ".real.guessed.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        _write(link, b"evil")
    assert victim.read_bytes() == b"precious"
    assert real.read_bytes() == b"new"


def test_without_locks_only_old_temporary_files_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_io, "fcntl", None)
    old, young = tmp_path / ".a.1.tmp", tmp_path / ".a.2.tmp"
    for file in (old, young):
        file.write_bytes(b"")
    os.utime(old, (0, 0))
    _write(tmp_path / "a", b"x")
    assert _names(tmp_path) == [".a.2.tmp", "a"]


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
