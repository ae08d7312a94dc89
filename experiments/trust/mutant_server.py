"""Run tests against mutants, each in a forked process.

Importing torch takes seconds, a test file often less. So a server process imports everything but the package once; for each
mutant it forks, and the child imports the package with the changed file and runs the tests of that file.
"""

import contextlib
import gc
import importlib
import importlib.abc
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
_PRELOADED = [
    *("torch", "numpy", "pytest", "hypothesis", "lightning.pytorch.cli", "lightning.pytorch.loggers", "scipy.stats"),
    *("pandas", "pyarrow.parquet", "safetensors.torch", "torch.utils.tensorboard", "matplotlib.figure"),
]


class _Changed(SourceFileLoader):
    """Loader that compiles another text than that of its file."""

    def __init__(self, fullname: str, path: str, source: str) -> None:
        super().__init__(fullname, path)
        self.source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    """Finder of one module, with changed source."""

    def __init__(self, file: Path, source: str) -> None:
        self.name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        self.file, self.source = file, source

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        loader = _Changed(fullname, str(self.file), self.source)
        return importlib.util.spec_from_file_location(fullname, self.file, loader=loader)


def _run_child(file: Path, source: str | None, tests: list[list[str]]) -> NoReturn:
    os.setsid()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    if source is not None:
        sys.meta_path.insert(0, _Finder(file, source))
    status = 3
    try:
        import pytest

        # "plain": to rewrite assertions, pytest would load modules on its command line from their files, without the change
        options = ["-x", "-q", "--assert=plain", "-m", "not slow and not long", "--rootdir", str(ROOT)]
        options += ["-p", "no:cacheprovider", "-p", "no:unraisableexception"]
        for stage in tests:
            status = int(pytest.main([*options, *stage]))
            if status:
                break
    finally:
        os._exit(status)


def outcome(file: Path, source: str | None, tests: list[list[str]], limit: float) -> str:
    """Run stages of tests in a forked child, up to the first that fails: "passed", "failed" or "timeout"."""
    child = os.fork()
    if child == 0:
        _run_child(file, source, tests)
    end = time.monotonic() + limit
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "passed" if os.waitstatus_to_exitcode(status) == 0 else "failed"
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "timeout"
        time.sleep(0.01)


def _warm_up() -> None:
    """Run an empty test file, so that pytest's plugins are imported before the first fork."""
    import pytest

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        (Path(folder) / "test_nothing.py").write_text("from hypothesis import given\n\n\ndef test_nothing():\n    pass\n")
        pytest.main(["-q", "--noconftest", "-p", "no:cacheprovider", "--doctest-modules", "--rootdir", folder, folder])


def serve() -> None:
    """Answer requests on standard input, one JSON object per line, with one JSON object per line."""
    for name in _PRELOADED:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    _warm_up()
    gc.collect()
    gc.freeze()  # a collection in a child need not visit torch
    sys.path.insert(0, str(ROOT))
    os.chdir(ROOT)
    for line in sys.stdin:
        request = json.loads(line)
        result = outcome(Path(request["file"]), request["source"], request["tests"], request["limit"])
        print(json.dumps({"outcome": result}), flush=True)


class MutantServer:
    """A server process and its pipes."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "experiments.trust.mutant_server"]
        self._process: subprocess.Popen[str] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )

    def ask(self, file: Path, source: str | None, tests: list[list[str]], limit: float = 60.0) -> str:
        """Run stages of tests with a file replaced by ``source``; None leaves it as it is."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request: dict[str, Any] = {"file": str(file), "source": source, "tests": tests, "limit": limit}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return str(json.loads(self._process.stdout.readline())["outcome"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


if __name__ == "__main__":
    serve()
