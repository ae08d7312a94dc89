"""Build and load the C++ kernel of the native backend. Nothing is built or needed before its first use.

Every process builds in a separate folder and renames the finished library into the cache, so a process that is killed
while it builds blocks no other, and no process loads half a file. A library is code: one that somebody else could have
written is refused.
"""

import functools
import hashlib
import logging
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from torch_softucb.simulation.backends.compiled import find_compiler

SOURCE = Path(__file__).with_name("rounds.cpp")
HEADERS = [Path(__file__).with_name(name) for name in ("scales.h", "contextual.h")]  # included by SOURCE
SANITIZE = "TORCH_SOFTUCB_SANITIZE"  # set to 1, builds with address and undefined-behaviour sanitizers, see its test
_FLAGS = ["-O3", "-march=native", "-ffast-math", "-fopenmp"]
_SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g"]
_STALE = 3600.0  # seconds after which a build folder was left behind by a process that was killed
_log = logging.getLogger(__name__)


class Kernel(NamedTuple):
    """The operations of the kernel, or the reason why they are not available.

    Attributes:
        op: plays a block of rounds.
        reason: why the kernel is not available; None if it is.
        rescale: estimates the scales of a policy that has no fixed ones.
        contextual: plays a block of rounds with changing candidates.
        candidates: draws candidates.
    """

    op: Callable[..., None] | None
    reason: str | None = None
    rescale: Callable[..., None] | None = None
    contextual: Callable[..., None] | None = None
    candidates: Callable[..., None] | None = None


def _flags() -> list[str]:
    return [*_FLAGS, *_SANITIZERS] if os.environ.get(SANITIZE) == "1" else _FLAGS


def library_name() -> str:
    """Return the library name, with a hash of source, versions and CPU flags so that no stale build is loaded."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    processor = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    parts = (
        SOURCE.read_text(),
        *(header.read_text() for header in HEADERS),
        torch.__version__,
        sys.version,
        platform.machine(),
        processor,
    )
    return "torch_softucb_" + hashlib.sha256("\n".join([*parts, *_flags()]).encode()).hexdigest()[:12]


@contextmanager
def environment_tools() -> Iterator[None]:
    """Prepend the environment's bin directory to PATH, so ninja is found without activating the venv."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


def cache_folder() -> Path:
    """Return the folder of built libraries, created for this user only; ``TORCH_EXTENSIONS_DIR`` moves it."""
    from torch.utils import cpp_extension

    root = os.environ.get("TORCH_EXTENSIONS_DIR") or cpp_extension.get_default_build_root()
    folder = Path(root) / "torch_softucb"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def distrust(path: Path) -> str | None:
    """Return why another user could have written ``path``, with the fix; None if only this user or root could."""
    if not hasattr(os, "getuid"):
        return None
    about = path.stat()
    if about.st_uid not in (os.getuid(), 0):
        return (
            f"{path} belongs to user {about.st_uid}, who could have put any code there; "
            "set TORCH_EXTENSIONS_DIR to one of your folders"
        )
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return (
            f"other users can write to {path} (mode {stat.S_IMODE(about.st_mode):o}), so its contents are not trusted; "
            "delete it, or run chmod go-w on it if you know that it was not changed"
        )
    return None


def _remove_stale(folder: Path) -> None:
    """Remove the build folders of processes that were killed; newer ones may still be in use."""
    for left in folder.glob("build-*"):
        try:
            if time.time() - left.stat().st_mtime > _STALE:
                shutil.rmtree(left, ignore_errors=True)
        except FileNotFoundError:  # its process has finished meanwhile
            continue


def _build(library: Path) -> None:
    """Build the library in a private folder, load it, and rename it to its place in the cache."""
    from torch.utils import cpp_extension

    _remove_stale(library.parent)
    mvec = ["-lmvec"] if platform.system() == "Linux" and platform.machine() == "x86_64" else []
    links = [flag for flag in _flags() if flag == "-fopenmp" or flag.startswith("-fsanitize")]
    private = Path(tempfile.mkdtemp(prefix="build-", dir=library.parent))
    try:
        cpp_extension.load(
            library.stem,
            [str(SOURCE)],
            is_python_module=False,
            extra_cflags=_flags(),
            extra_ldflags=[*links, *mvec],
            build_directory=str(private),
        )
        built = private / library.name
        built.chmod(0o600)
        built.replace(library)
    finally:
        shutil.rmtree(private, ignore_errors=True)


@functools.cache
def load_kernel() -> Kernel:
    """Return the kernel, built on first use; a failed build is not tried again in this process."""
    from torch.utils import cpp_extension

    with environment_tools():
        if find_compiler() is None or not cpp_extension.is_ninja_available():
            return Kernel(None, "compile='native' needs a C++ compiler and ninja (pip install ninja); one is missing")
        try:
            library = cache_folder() / f"{library_name()}{cpp_extension.LIB_EXT}"
            for path in (library.parent, library):
                reason = distrust(path) if path.exists() else None
                if reason is not None:
                    return Kernel(None, f"the native kernel was not loaded: {reason}")
            if library.exists():
                torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
            else:
                _log.info("building the native kernel; this is done once")
                _build(library)
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            return Kernel(None, f"the native kernel could not be built ({str(error).splitlines()[0]})")
    ops = torch.ops.torch_softucb
    return Kernel(ops.rounds.default, None, ops.rescale.default, ops.contextual_rounds.default, ops.candidates.default)
