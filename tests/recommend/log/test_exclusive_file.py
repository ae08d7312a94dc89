"""One writer per file, also on platforms that lack parts of POSIX."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torch_softucb.recommend import JournalError, log_records
from torch_softucb.recommend.log.exclusive_file import ExclusiveFile

ROOT = Path(__file__).parent.parent.parent.parent

WITHOUT = {
    "macos": "import os; del os.fdatasync\n",
    "windows": """
import os, sys, types
import pyarrow.parquet, torch  # before there is an msvcrt: the standard library would take this for Windows
del os.fdatasync, os.pwrite
sys.modules["fcntl"] = None
locked = set()

def locking(handle, mode, count):  # mandatory locks, by file and position
    place = os.fstat(handle).st_ino, os.lseek(handle, 0, os.SEEK_CUR)
    if mode == 0:
        locked.remove(place)
    elif place in locked:
        raise PermissionError(13, "Permission denied")
    else:
        locked.add(place)

sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2, LK_UNLCK=0)
""",
    "no locks": "import os, sys; del os.fdatasync, os.pwrite; sys.modules['fcntl'] = sys.modules['msvcrt'] = None\n",
}


def _run(platform, script, *arguments):
    """Run a script in a process that lacks what the platform lacks."""
    command = [sys.executable, "-c", WITHOUT[platform] + script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


READ = """
import importlib, pkgutil, sys
import torch_softucb
from torch_softucb import recommend
for module in pkgutil.walk_packages(recommend.__path__, "torch_softucb.recommend."):
    importlib.import_module(module.name)
print(recommend.read_log(sys.argv[1]).reward.tolist())
"""
WRITE = """
import sys, torch
from torch_softucb import SoftUCBHead, SoftUCBPolicy
from torch_softucb.recommend import DecisionLog, JournalError, read_log
head = SoftUCBHead(torch.nn.Identity(), SoftUCBPolicy(2))
log = DecisionLog(sys.argv[1])
try:
    DecisionLog(sys.argv[1])
except JournalError as error:
    print(error)
served = head.serve(head(torch.eye(2).expand(3, 2, 2)))
log.decisions(served)
log.rewards(served.id, torch.tensor([1.0, 2.0, 3.0]))
log.close()
DecisionLog(sys.argv[1]).close()
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A log that this platform wrote."""
    folder = tmp_path_factory.mktemp("log")
    done = subprocess.run([sys.executable, "-c", WRITE, folder], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "another writer has it open" in done.stdout
    return folder


@pytest.mark.parametrize("platform", WITHOUT)
def test_every_module_imports_and_reads_without_posix(platform, written):
    done = _run(platform, READ, written)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[1.0, 2.0, 3.0]"


@pytest.mark.parametrize("platform", ["macos", "windows"])
def test_the_same_records_are_written_without_fdatasync_pwrite_or_fcntl(platform, written, tmp_path):
    done = _run(platform, WRITE, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "another writer has it open" in done.stdout
    ours, theirs = (list(log_records(folder)) for folder in (written, tmp_path))
    assert len(ours) == 2
    for (kind, columns), (other, found) in zip(ours, theirs, strict=True):
        assert kind == other
        assert all(found[name].shape == values.shape for name, values in columns.items())
    assert found["reward"].tolist() == [1.0, 2.0, 3.0]
    assert (tmp_path / "00000001.journal").stat().st_size == (written / "00000001.journal").stat().st_size


def test_without_any_lock_writing_is_refused_with_a_reason(tmp_path):
    done = _run("no locks", WRITE, tmp_path)
    assert done.returncode == 1
    assert "writing needs a file lock, and this platform has neither fcntl nor msvcrt" in done.stderr
    assert not [*tmp_path.iterdir()]


def test_writes_land_where_they_belong_though_the_disk_takes_only_a_part(tmp_path, monkeypatch):
    whole = os.pwrite
    monkeypatch.setattr("os.pwrite", lambda handle, data, at: whole(handle, data[:3], at))
    file = ExclusiveFile(tmp_path / "a")
    file.write_at(4, b"0123456789")
    file.write_at(0, b"head")
    file.truncate(9)
    file.sync()
    file.sync_data()
    file.close()
    file.close()
    assert file.closed
    assert (tmp_path / "a").read_bytes() == b"head01234"


def test_the_lock_is_released_when_the_file_is_closed(tmp_path):
    first = ExclusiveFile(tmp_path / "a")
    with pytest.raises(JournalError, match="another writer has it open"):
        ExclusiveFile(tmp_path / "a")
    first.close()
    ExclusiveFile(tmp_path / "a").close()


def test_a_new_file_is_private_and_an_old_one_keeps_its_mode(tmp_path):
    ExclusiveFile(tmp_path / "new").close()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o640)
    ExclusiveFile(tmp_path / "old").close()
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o640


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "victim").touch()
    (tmp_path / "a").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic link"):
        ExclusiveFile(tmp_path / "a")


def test_a_forked_process_neither_keeps_nor_releases_the_lock(tmp_path):
    file = ExclusiveFile(tmp_path / "a")
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        file.close()
        os.write(ready[1], b"1" if file.closed else b"0")
        os.read(done[0], 1)
        os._exit(0)
    assert os.read(ready[0], 1) == b"1"
    with pytest.raises(JournalError, match="another writer has it open"):  # the parent's lock is still there
        ExclusiveFile(tmp_path / "a")
    file.close()
    ExclusiveFile(tmp_path / "a").close()  # though the child lives
    os.write(done[1], b"1")
    os.waitpid(child, 0)


def test_a_file_that_is_forgotten_is_closed(tmp_path):
    file = ExclusiveFile(tmp_path / "a")
    del file
    ExclusiveFile(tmp_path / "a").close()
