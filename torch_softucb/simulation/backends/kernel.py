"""Build and load the C++ kernel of the native backend. Nothing is built or needed before its first use."""

import functools
import hashlib
import logging
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from torch_softucb.simulation.backends.compiled import find_compiler

SOURCE = Path(__file__).with_name("rounds.cpp")
_FLAGS = ["-O3", "-march=native", "-ffast-math", "-fopenmp"]
_log = logging.getLogger(__name__)


class Kernel(NamedTuple):
    """The kernel, or the reason why it is not available."""

    op: Callable[..., None] | None
    reason: str | None = None


def library_name() -> str:
    """Return the library name, with a hash of source, torch version and CPU flags so that no stale build is loaded."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    processor = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    parts = (SOURCE.read_text(), torch.__version__, platform.machine(), processor)
    return "torch_softucb_" + hashlib.sha256("\n".join([*parts, *_FLAGS]).encode()).hexdigest()[:12]


@contextmanager
def environment_tools() -> Iterator[None]:
    """Prepend the environment's bin directory to PATH, so ninja is found without activating the venv."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


@functools.cache
def load_kernel() -> Kernel:
    """Return the kernel, built on first use; a failed build is not tried again in this process."""
    from torch.utils import cpp_extension

    with environment_tools():
        if find_compiler() is None or not cpp_extension.is_ninja_available():
            return Kernel(None, "compile='native' needs a C++ compiler and ninja (pip install ninja); one is missing")
        mvec = ["-lmvec"] if platform.system() == "Linux" and platform.machine() == "x86_64" else []
        _log.info("building the native kernel; this is done once")
        try:
            cpp_extension.load(
                library_name(), [str(SOURCE)], is_python_module=False, extra_cflags=_FLAGS, extra_ldflags=["-fopenmp", *mvec]
            )
        except (RuntimeError, OSError) as error:
            return Kernel(None, f"the native kernel could not be built ({str(error).splitlines()[0]})")
    return Kernel(torch.ops.torch_softucb.rounds.default)
