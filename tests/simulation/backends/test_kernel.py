"""Building and loading the kernel: the library's name, the tools, a missing compiler."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.simulation.cases import needs_compiler, problem_of
from torch_softucb import LinUCB, rollout
from torch_softucb.errors import CompileWarning
from torch_softucb.simulation.backends import kernel
from torch_softucb.simulation.backends.compiled import find_compiler
from torch_softucb.simulation.backends.kernel import cache_folder, distrust, environment_tools, library_name, load_kernel


def test_the_name_follows_source_torch_and_flags(monkeypatch, tmp_path):
    name = library_name()
    assert name == library_name()
    monkeypatch.setattr(kernel, "_FLAGS", ["-O0"])
    others = {library_name()}
    monkeypatch.undo()
    monkeypatch.setattr(torch, "__version__", "0.0")
    others.add(library_name())
    monkeypatch.undo()
    (tmp_path / "rounds.cpp").write_text("// another source")
    monkeypatch.setattr(kernel, "SOURCE", tmp_path / "rounds.cpp")
    others.add(library_name())
    assert len(others | {name}) == 4


def test_the_environment_is_first_on_the_path_and_the_path_is_restored(monkeypatch):
    monkeypatch.setenv("PATH", "/somewhere")
    with environment_tools():
        assert os.environ["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/somewhere"]
    assert os.environ["PATH"] == "/somewhere"


@needs_compiler
def test_a_failed_build_gives_a_reason_and_is_not_tried_again(monkeypatch, tmp_path):
    from torch.utils import cpp_extension

    calls = []

    def fail(*args, **settings):
        calls.append(args)
        raise RuntimeError("no space left\ndetails")

    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.setattr(cpp_extension, "load", fail)
    load_kernel.cache_clear()
    try:
        for _ in range(2):
            assert load_kernel()[:2] == (None, "the native kernel could not be built (no space left)")
        assert len(calls) == 1
        assert list(cache_folder().iterdir()) == []  # no half-built library, no build folder
    finally:
        load_kernel.cache_clear()


# --- the cache of built libraries

STATE = "from torch_softucb.simulation.backends.kernel import load_kernel; print(load_kernel().reason)"


def _reason(folder, compiler):
    """Return the reason of ``load_kernel`` in a new process that builds with ``compiler``."""
    env = os.environ | {"TORCH_EXTENSIONS_DIR": str(folder), "CXX": str(compiler)}
    done = subprocess.run([sys.executable, "-c", STATE], env=env, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def _compiler(path, command):
    """A compiler that answers questions about its version, but runs ``command`` instead of compiling."""
    path.write_text(f'#!/bin/sh\ncase "$*" in *rounds.cpp*) {command};; *) exec {find_compiler()} "$@";; esac\n')
    path.chmod(0o700)
    return path


@needs_compiler
def test_a_process_killed_while_it_builds_blocks_no_other(tmp_path):
    pid = tmp_path / "pid"
    slow = _compiler(tmp_path / "slow", f"echo $$ > {pid}.part; mv {pid}.part {pid}; exec sleep 60")
    env = os.environ | {"TORCH_EXTENSIONS_DIR": str(tmp_path / "cache"), "CXX": str(slow)}
    first = subprocess.Popen([sys.executable, "-c", STATE], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not pid.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        first.kill()
        first.wait()
    os.kill(int(pid.read_text()), signal.SIGKILL)
    assert "could not be built" in _reason(tmp_path / "cache", _compiler(tmp_path / "broken", "exit 1"))


@needs_compiler
@pytest.mark.parametrize("what", ["folder", "library"])
def test_a_library_that_others_can_write_is_not_loaded(what, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    library = cache_folder() / f"{library_name()}.so"
    library.write_bytes(b"not a library")
    path = library if what == "library" else library.parent
    path.chmod(0o777)
    monkeypatch.setattr(torch.ops, "load_library", lambda path: pytest.fail("was loaded"))
    load_kernel.cache_clear()
    try:
        op, reason, *_ = load_kernel()
    finally:
        load_kernel.cache_clear()
    assert op is None
    assert reason.startswith(f"the native kernel was not loaded: other users can write to {path} (mode 777)")
    assert "chmod go-w" in reason


def test_a_file_of_another_user_is_not_trusted(tmp_path, monkeypatch):
    path = tmp_path / "library.so"
    path.write_bytes(b"")
    path.chmod(0o600)
    assert distrust(path) is None
    about = os.stat_result((0o100600, 0, 0, 1, os.getuid() + 1, 0, 0, 0, 0, 0))
    monkeypatch.setattr(Path, "stat", lambda self: about)
    assert f"belongs to user {os.getuid() + 1}" in distrust(path)
    assert "TORCH_EXTENSIONS_DIR" in distrust(path)


def test_the_cache_is_private_and_build_folders_left_behind_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "cache"))
    folder = cache_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    for name in ("build-old", "build-new"):
        (folder / name).mkdir()
        (folder / name / "lock").touch()
    os.utime(folder / "build-old", (0, 0))
    kernel._remove_stale(folder)
    assert [path.name for path in folder.iterdir()] == ["build-new"]


@needs_compiler
def test_the_library_appears_whole_and_without_its_build_folder(tmp_path, monkeypatch):
    from torch.utils import cpp_extension

    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    library = cache_folder() / "name.so"

    def build(name, sources, *, build_directory, **settings):
        assert not library.exists()
        (Path(build_directory) / f"{name}.so").write_bytes(b"whole")

    monkeypatch.setattr(cpp_extension, "load", build)
    kernel._build(library)
    assert library.read_bytes() == b"whole"
    assert list(cache_folder().iterdir()) == [library]


# --- sanitizers

ODD_SHAPES = """
import torch
from tests.simulation.cases import POLICIES, problem_of, situated
from torch_softucb import BanditProblem, rollout, synthetic_problem
seeded = lambda seed: torch.Generator().manual_seed(seed)
runs = 0
for dtype in (torch.float32, torch.float64):
    for name, policy in {**POLICIES, "situated": situated}.items():
        soft = "soft" in name or name == "situated"
        for discount in (1.0, 0.9):
            for shape in ("own arms", "shared arms", "single", "two dims", "masked", "masked drift"):
                for gradient in (False, soft):
                    scores = gradient and name in ("soft_ucb", "soft_ucb_smooth")
                    rollout(policy(4, dtype=dtype), problem_of(shape, seeded, dtype), horizon=9, generator=seeded(1),
                            discount=discount, gradient=gradient, scores=scores, compile="native")
                    runs += 1
            for batch, num_arms, dim in ((1, 1, 1), (1, 5, 1), (15, 1, 3), (16, 2, 2), (17, 3, 7), (33, 40, 2)):
                problem = synthetic_problem(num_problems=batch, num_arms=num_arms, dim=dim, dtype=dtype, generator=seeded(2))
                rollout(policy(dim, dtype=dtype), BanditProblem(30 * problem.arms, problem.means), horizon=5,
                        generator=seeded(1), discount=discount, compile="native")
                runs += 1
print("runs", runs)
"""


@needs_compiler
@pytest.mark.long
def test_sanitizers_report_nothing_on_rollouts_of_odd_shapes(tmp_path):
    """Address and undefined-behaviour sanitizers, in a child process that preloads their runtime."""
    found = subprocess.run([find_compiler(), "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    runtime = found.stdout.strip()
    if not os.path.isabs(runtime):
        pytest.skip("the compiler has no libasan.so")
    env = os.environ | {
        "TORCH_EXTENSIONS_DIR": str(tmp_path),
        kernel.SANITIZE: "1",
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-W", "error::torch_softucb.errors.CompileWarning", "-c", ODD_SHAPES]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr[-4000:]
    assert "runtime error" not in done.stderr
    assert int(done.stdout.split()[1]) > 300


@needs_compiler
@pytest.mark.parametrize("compile", [True, "native"])
def test_without_a_compiler_it_warns_once_and_plays_eagerly(compile, seeded, monkeypatch):
    monkeypatch.setattr("torch_softucb.simulation.backends.compiled.find_compiler", lambda: None)
    monkeypatch.setattr("torch_softucb.simulation.backends.kernel.find_compiler", lambda: None)
    load_kernel.cache_clear()
    problem, policy = problem_of("own arms", seeded), LinUCB(4, dtype=torch.double)
    with pytest.warns(CompileWarning, match=r"C\+\+ compiler.*playing eagerly") as caught:
        got = rollout(policy, problem, horizon=9, generator=seeded(1), compile=compile)
    assert len(caught) == 1
    load_kernel.cache_clear()
    assert got.regret.equal(rollout(policy, problem, horizon=9, generator=seeded(1)).regret)


def test_import_builds_nothing():
    script = "import sys, torch_softucb; print('torch.utils.cpp_extension' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
